// Package lines lets a client be asked with one JSON object per line and answer with one (see remote.py).
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Request is one thing to do; each act reads the fields that it needs.
type Request struct {
	Act             string   `json:"act"`
	Topic           string   `json:"topic"`
	Partitions      int32    `json:"partitions"`
	Values          []string `json:"values"`
	Value           string   `json:"value"`
	Codec           string   `json:"codec"`
	Acks            string   `json:"acks"`
	Offset          int64    `json:"offset"`
	Count           int      `json:"count"`
	Committed       bool     `json:"committed"`
	Timestamp       int64    `json:"timestamp"`
	Member          string   `json:"member"`
	Group           string   `json:"group"`
	Protocol        string   `json:"protocol"`
	TransactionalID string   `json:"transactional_id"`
	TimeoutMS       int64    `json:"timeout_ms"`
	Sink            string   `json:"sink"`
	Login           Login    `json:"login"`
}

// Progress is what a member of a group holds, and what it has got since it was last asked.
type Progress struct {
	Assigned []int32  `json:"assigned"`
	Values   []string `json:"values"`
}

// Act does what a request asks for.
type Act func(Request) (any, error)

// Serve answers every line of standard input until it ends.
func Serve(acts map[string]Act) {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var request Request
		result, err := any(nil), json.Unmarshal(input.Bytes(), &request)
		if err == nil {
			result, err = do(acts, request)
		}
		answer := map[string]any{"result": result}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if output.Encode(answer) != nil {
			return
		}
	}
}

func do(acts map[string]Act, request Request) (any, error) {
	act, found := acts[request.Act]
	if !found {
		return nil, fmt.Errorf("there is no act %q", request.Act)
	}
	return act(request)
}
