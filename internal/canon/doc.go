// Package canon turns JSON into one exact canonical form, so that two spellings of the same arguments
// hash the same and two different ones do not.
//
// The form is RFC 8785 (JSON Canonicalization Scheme) with one deliberate departure: numbers are exact
// decimals and never pass through a float64. RFC 8785 rounds 9007199254740993 to ...992, which for an
// account number or an amount means two requests with one fingerprint.
//
//   - No white space. Members sorted by the UTF-16 code units of their names (RFC 8785, 3.2.3).
//   - Strings with the fewest escapes: \" \\ \b \f \n \r \t, other controls as \u00xx, all else as
//     UTF-8 (RFC 8785, 3.2.2.2). No Unicode normalisation unless [Options] asks for it.
//   - Numbers by value: 1, 1.0, 1e0 and 10e-1 are 1; -0 is 0. Plain notation where that adds 40 zeros
//     or fewer, else d.ddde+x or d.ddde-x.
//   - null differs from an absent member, "1" from 1, unless [Options] says otherwise.
//
// Input is what RFC 8259 and I-JSON (RFC 7493) both allow, and nothing laxer: no duplicate member names
// (compared after unescaping), no lone surrogates, no invalid UTF-8, no byte order mark, no trailing
// data; size, depth and exponents are bounded. What encoding/json repairs silently is refused here,
// because a repaired document is no longer the one the caller sent.
//
// The package keeps no state a caller can see, and every function is safe for concurrent use.
package canon

// Version names the canonical form. It changes whenever [Append] would give other bytes for any input
// it accepts with nil options, and belongs into whatever is hashed or stored with the result.
const Version = 1
