// Reads a log that was published as tiles with golang.org/x/mod/sumdb, which the Go project wrote, and checks every
// record and every older tree against the signed head. It shares no code with expunge.
//
//	read_tiles FOLDER VERIFIER_KEY
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/ioutil"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const width = 256

// folder reads tiles of height 8. C2SP leaves the height out of the path, which the Go checksum database has in it.
type folder string

func (dir folder) Height() int { return 8 }

func (dir folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, tile := range tiles {
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		data, err := ioutil.ReadFile(filepath.Join(string(dir), path))
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}
	return found, nil
}

func (dir folder) SaveTiles(tiles []tlog.Tile, data [][]byte) {}

func (dir folder) entries(size int64) ([][]byte, error) {
	var found [][]byte
	for first := int64(0); first < size; first += width {
		count := size - first
		if count > width {
			count = width
		}
		tile := tlog.Tile{H: 8, L: 0, N: first / width, W: int(count)}
		path := filepath.Join(string(dir), strings.Replace(tile.Path(), "tile/8/0/", "tile/entries/", 1))
		prefix := 2
		data, err := ioutil.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			prefix = 4
			data, err = ioutil.ReadFile(strings.Replace(path, "tile/entries/", "tile/entries-u32/", 1))
		}
		if err != nil {
			return nil, err
		}
		for len(data) >= prefix {
			length := int(binary.BigEndian.Uint16(data))
			if prefix == 4 {
				length = int(binary.BigEndian.Uint32(data))
			}
			if len(data) < prefix+length {
				return nil, fmt.Errorf("%s ends within an entry", path)
			}
			found = append(found, data[prefix:prefix+length])
			data = data[prefix+length:]
		}
	}
	if int64(len(found)) != size {
		return nil, fmt.Errorf("%d entries, and the head has %d", len(found), size)
	}
	return found, nil
}

func check(dir folder, key string) (map[string]interface{}, error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return nil, err
	}
	text, err := ioutil.ReadFile(filepath.Join(string(dir), "checkpoint"))
	if err != nil {
		return nil, err
	}
	opened, err := note.Open(text, note.VerifierList(verifier))
	if err != nil {
		return nil, err
	}
	lines := strings.SplitN(opened.Text, "\n", 2)
	if lines[0] != verifier.Name() {
		return nil, fmt.Errorf("a head of %s, not of %s", lines[0], verifier.Name())
	}
	// The Go checksum database has one origin; the rest of the text is the same.
	tree, err := tlog.ParseTree([]byte("go.sum database tree\n" + lines[1]))
	if err != nil {
		return nil, err
	}
	entries, err := dir.entries(tree.N)
	if err != nil {
		return nil, err
	}
	hashes := tlog.TileHashReader(tree, dir)
	for index, entry := range entries {
		proof, err := tlog.ProveRecord(tree.N, int64(index), hashes)
		if err != nil {
			return nil, err
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, int64(index), tlog.RecordHash(entry)); err != nil {
			return nil, fmt.Errorf("record %d: %v", index, err)
		}
	}
	for size := int64(1); size <= tree.N; size++ {
		older, err := tlog.TreeHash(size, hashes)
		if err != nil {
			return nil, err
		}
		proof, err := tlog.ProveTree(tree.N, size, hashes)
		if err != nil {
			return nil, err
		}
		if err := tlog.CheckTree(proof, tree.N, tree.Hash, size, older); err != nil {
			return nil, fmt.Errorf("tree of %d: %v", size, err)
		}
	}
	return map[string]interface{}{"leaves": tree.N, "records": len(entries), "trees": tree.N}, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: read_tiles FOLDER VERIFIER_KEY")
		os.Exit(2)
	}
	found, err := check(folder(os.Args[1]), os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(found)
}
