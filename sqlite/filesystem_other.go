//go:build !linux

package sqlite

func checkFilesystem(string) error { return nil }
