// Claude Agent SDK against an Anthropic API of our own on loopback; not part of
// scripts/test because of its size: scripts/test-claude installs and runs it.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { query } from "@anthropic-ai/claude-agent-sdk";
import { options, Script, textOf } from "./script.mjs";

const o = options();
o.tool = "mcp__tickets__create_ticket";
const script = new Script("claude-agent", o);

// messages answers POST /v1/messages, as events where the client asks for them.
function messages(request, response) {
  let body = "";
  request.on("data", (b) => (body += b));
  request.on("end", () => {
    if (!request.url.startsWith("/v1/messages") || request.url.includes("count_tokens")) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end('{"input_tokens":1}');
    }
    const asked = JSON.parse(body);
    // Requests without our tool are the SDK's own business, such as a title.
    const ours = asked.tools?.some((t) => t.name === o.tool);
    const seen = asked.messages
      .flatMap((m) => (Array.isArray(m.content) ? m.content : []))
      .filter((part) => part.type === "tool_result")
      .map((part) => textOf(part.content));
    const step = ours ? script.next(seen) : { final: "ok" };
    const content = step.call
      ? { type: "tool_use", id: step.call.id.replace("call", "toolu"), name: step.call.name, input: step.call.input }
      : { type: "text", text: step.final };
    const message = {
      id: `msg_${script.made}`, type: "message", role: "assistant", model: asked.model, content: [content],
      stop_reason: step.call ? "tool_use" : "end_turn", stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 },
    };
    if (!asked.stream) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify(message));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    send("message_start", { message: { ...message, content: [], stop_reason: null } });
    send("content_block_start", {
      index: 0, content_block: step.call ? { ...content, input: {} } : { type: "text", text: "" },
    });
    send("content_block_delta", {
      index: 0,
      delta: step.call
        ? { type: "input_json_delta", partial_json: JSON.stringify(content.input) }
        : { type: "text_delta", text: content.text },
    });
    send("content_block_stop", { index: 0 });
    send("message_delta", { delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: { output_tokens: 1 } });
    send("message_stop", {});
    response.end();
  });
}

const api = createServer(messages);
await new Promise((listening) => api.listen(0, "127.0.0.1", listening));
const home = mkdtempSync(join(tmpdir(), "justonce-claude-"));
let final = null;
try {
  const run = query({
    prompt: "Open a ticket.",
    options: {
      cwd: home,
      model: "claude-sonnet-4-5",
      maxTurns: o.calls + 2,
      settingSources: [],
      allowedTools: [o.tool],
      env: {
        PATH: process.env.PATH,
        HOME: home,
        CLAUDE_CONFIG_DIR: home,
        ANTHROPIC_BASE_URL: `http://127.0.0.1:${api.address().port}`,
        ANTHROPIC_API_KEY: "none",
        ENABLE_TOOL_SEARCH: "false",
        DISABLE_TELEMETRY: "1",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        MCP_TOOL_TIMEOUT: String(o.timeout),
      },
      mcpServers: {
        tickets: o.url ? { type: "http", url: o.url } : { type: "stdio", command: o.command, args: o.args, env: process.env },
      },
    },
  });
  for await (const m of run) if (m.type === "result") final = m.result ?? m.subtype;
} finally {
  api.closeAllConnections();
  api.close();
  rmSync(home, { recursive: true, force: true });
}
script.print(final);
process.exit(0);
