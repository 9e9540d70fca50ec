// Package catalog reads justonce.yaml: the settings of a server and the tools
// it offers, each with its arguments' schema, its identity, what its provider
// can tell afterwards, and the connector that reaches it.
//
// The file is strict. Whatever is unknown, said twice or out of range is found
// with its line and column, and nothing is guessed. [Check] finds, beyond what
// cannot work, what somebody may regret; [Rules] lists all it looks for.
//
// The package knows no connector: [Options.Connectors] has one function for
// each block (http, smtp, …), which decodes the block into its own type with
// [Spec.Decode] and returns the connector. Secrets stay references, such as
// ${env:STRIPE_KEY}, until a connector asks [Secrets] for them at the time of a
// send.
package catalog
