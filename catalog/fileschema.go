package catalog

import _ "embed"

//go:embed justonce.schema.json
var fileSchema []byte

// FileSchema returns the JSON Schema of the file itself, for editors. It is
// less strict than [Parse].
func FileSchema() []byte { return append([]byte(nil), fileSchema...) }
