// Package smtpconn sends one mail per attempt over SMTP, and says by the stage
// that was reached what the attempt proves.
//
// Until the dot that ends the message has been sent, a server must not deliver
// it: whatever fails before is not executed, or rejected where the server
// refuses sender, recipient or message with a 5xx reply. After the dot only the
// server's reply counts: 2xx succeeded, 5xx rejected, 4xx not executed; with no
// reply, or with 421, by which a server may close a connection for reasons of
// its own, nobody knows.
//
// Every attempt at an operation sends the same bytes: the Message-ID and the
// MIME boundary are made from the wire key, and the date is that of the first
// send. SMTP itself removes no duplicates; a provider that does so by
// Message-ID, or by a header that takes the wire key, can be given one.
//
// # Why net/smtp
//
// The standard library's client has one method for each command and leaves the
// text connection open to its user, so that the end of the message, and the
// reply to it, can be told from everything before. Clients that send a mail
// with one call cannot be asked how far they came.
package smtpconn
