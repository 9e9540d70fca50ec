// LangChain's MCP adapters and a LangGraph agent.
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { options, Script, textOf } from "./script.mjs";

const o = options();
const script = new Script("langchain", o);

class ScriptedModel extends BaseChatModel {
  _llmType() {
    return "scripted";
  }
  bindTools() {
    return this;
  }
  async _generate(messages) {
    const seen = messages.filter((m) => m.getType() === "tool").map((m) => textOf(m.content));
    const step = script.next(seen);
    const message = step.call
      ? new AIMessage({ content: "", tool_calls: [{ id: step.call.id, name: step.call.name, args: step.call.input, type: "tool_call" }] })
      : new AIMessage(step.final);
    return { generations: [{ text: message.text, message }] };
  }
}

const client = new MultiServerMCPClient({
  defaultToolTimeout: o.timeout,
  mcpServers: {
    tickets: o.url
      ? { transport: "http", url: o.url, automaticSSEFallback: false }
      : { transport: "stdio", command: o.command, args: o.args, env: process.env },
  },
});
const agent = createReactAgent({ llm: new ScriptedModel({}), tools: await client.getTools() });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: "Open a ticket." }] }, { recursionLimit: 2 * o.calls + 5 });
script.print(textOf(messages.at(-1).content));
process.exit(0);
