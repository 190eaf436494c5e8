// Package webhook verifies a webhook's signature.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

const tolerance = 300 * time.Second

var (
	ErrSignature = errors.New("missing or wrong signature")           // answer 401
	ErrStale     = errors.New("right signature, more than 300 s off") // answer 400
)

// Verify returns nil for an event to accept, else ErrSignature or ErrStale. Pass the raw body, as read
// before anything parses it, and r.Header.Values("Service-Signature"); any one v1 is enough (two during
// a rotation).
func Verify(body []byte, header []string, secret string) error {
	var stamps, signatures []string
	for _, part := range strings.Split(strings.Join(header, ","), ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			stamps = append(stamps, value)
		case "v1":
			signatures = append(signatures, value)
		}
	}
	if len(stamps) != 1 {
		return ErrSignature
	}
	seconds, err := strconv.ParseUint(stamps[0], 10, 40)
	if err != nil {
		return ErrSignature
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamps[0] + "."))
	mac.Write(body)
	expected := []byte(hex.EncodeToString(mac.Sum(nil)))
	for _, signature := range signatures {
		if !hmac.Equal(expected, []byte(signature)) {
			continue
		}
		if time.Since(time.Unix(int64(seconds), 0)).Abs() > tolerance {
			return ErrStale
		}
		return nil
	}
	return ErrSignature
}
