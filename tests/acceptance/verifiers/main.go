// Reads requests from standard input, a JSON document a line; prints the status to answer each with.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"verifiers/webhook"
)

type request struct {
	Body   []byte
	Header [][]byte
	Secret []byte
}

func status(asked request) int {
	var header []string
	for _, value := range asked.Header {
		header = append(header, string(value))
	}
	err := webhook.Verify(asked.Body, header, string(asked.Secret))
	switch {
	case err == nil:
		return 200
	case errors.Is(err, webhook.ErrStale):
		return 400
	case errors.Is(err, webhook.ErrSignature):
		return 401
	}
	panic(err)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		fmt.Println(status(asked))
	}
}
