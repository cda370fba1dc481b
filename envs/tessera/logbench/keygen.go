package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// keygen writes a key pair in the format of the servers: the whole file is the key, without a trailing newline.
func keygen(arguments []string) error {
	flags := flag.NewFlagSet("keygen", flag.ContinueOnError)
	name := flags.String("name", "", "name of the log, which is the origin of its checkpoints")
	private := flags.String("private", "", "file to write the private key to; it must not exist")
	public := flags.String("public", "", "file to write the public key to; it must not exist")
	if err := parseFlags(flags, arguments, "name", "private", "public"); err != nil {
		return err
	}
	signer, verifier, err := note.GenerateKey(rand.Reader, *name)
	if err != nil {
		return err
	}
	// The library generates keys for names that it cannot read back, such as a name with a space.
	if _, err := note.NewSigner(signer); err != nil {
		return fmt.Errorf("--name %q is not a valid name of a log: it must contain neither spaces nor '+'", *name)
	}
	if err := writeNew(*private, signer, 0o600); err != nil {
		return err
	}
	return writeNew(*public, verifier, 0o644)
}

// writeNew never replaces a key, because a log may still use it.
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

// readSigner reads a private key. Its error names the trailing newline that editors and `echo` add, which the library
// only calls malformed.
func readSigner(path string) (note.Signer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key := string(content)
	if strings.TrimSpace(key) != key {
		return nil, fmt.Errorf("the key file %s begins or ends with white space, such as a newline: it must contain nothing but the key", path)
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w", path, err)
	}
	return signer, nil
}

// newVerifier parses the text of a public key.
func newVerifier(key string) (note.Verifier, error) {
	if strings.TrimSpace(key) != key {
		return nil, fmt.Errorf("public_key begins or ends with white space, such as a newline: it must contain nothing but the key")
	}
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("public_key: %w", err)
	}
	return verifier, nil
}
