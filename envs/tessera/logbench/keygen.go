package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// keygen writes a key pair as the servers read it: the whole file is the key, so there is no newline at its end.
func keygen(arguments []string) error {
	flags := flag.NewFlagSet("keygen", flag.ContinueOnError)
	name := flags.String("name", "", "name of the log, which becomes its checkpoints' origin")
	private := flags.String("private", "", "file to write the private key to; it must not exist")
	public := flags.String("public", "", "file to write the public key to; it must not exist")
	if err := parseFlags(flags, arguments, "name", "private", "public"); err != nil {
		return err
	}
	signer, verifier, err := note.GenerateKey(rand.Reader, *name)
	if err != nil {
		return err
	}
	// The library makes keys of names that it does not read back, such as one with a space.
	if _, err := note.NewSigner(signer); err != nil {
		return fmt.Errorf("--name %q is no name of a log: neither spaces nor '+' may be in it", *name)
	}
	if err := writeNew(*private, signer, 0o600); err != nil {
		return err
	}
	return writeNew(*public, verifier, 0o644)
}

// writeNew never replaces a key that a log may still be signed with.
func writeNew(path, content string, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(content); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// readSigner reads a private key, and names the newline that editors and `echo` leave behind: the library only calls
// such a key malformed.
func readSigner(path string) (note.Signer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key := string(content)
	if strings.TrimSpace(key) != key {
		return nil, fmt.Errorf("the key file %s begins or ends with white space, such as a newline: the key must be all there is in it", path)
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w", path, err)
	}
	return signer, nil
}

// newVerifier takes a public key as text; `where` tells the person where it was read.
func newVerifier(key, where string) (note.Verifier, error) {
	if strings.TrimSpace(key) != key {
		return nil, fmt.Errorf("%s begins or ends with white space, such as a newline: the key must be all there is in it", where)
	}
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return verifier, nil
}
