// Package bench compares what justonce is built on with what it could have been
// built on. It is a module of its own, so that the alternatives never enter the
// dependencies of the product.
package bench
