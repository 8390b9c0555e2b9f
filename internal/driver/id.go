package driver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dirID is the random name of a directory, made once. A copy of the directory has another one: the processes of the
// original are not the copy's.
func dirID(dir string) (string, error) {
	here, err := place(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "id")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the id of the directory: %w", err)
	}
	if f := strings.Fields(string(b)); len(f) == 2 && f[1] == here {
		return f[0], nil
	}
	id := rand.Text()
	return id, replaceFile(path, []byte(id+" "+here+"\n"))
}
