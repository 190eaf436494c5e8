// Package webhook verifies a webhook's signature.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

const tolerance = 300 * time.Second

// Verify tells whether Service-Signature fits the raw body, as read before anything parses it;
// any one v1 is enough (two during a rotation).
func Verify(body []byte, header, secret string) bool {
	var stamps, signatures []string
	for _, part := range strings.Split(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			stamps = append(stamps, value)
		case "v1":
			signatures = append(signatures, value)
		}
	}
	if len(stamps) != 1 {
		return false
	}
	seconds, err := strconv.ParseUint(stamps[0], 10, 40)
	if err != nil || time.Since(time.Unix(int64(seconds), 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamps[0] + "."))
	mac.Write(body)
	expected := []byte(hex.EncodeToString(mac.Sum(nil)))
	for _, signature := range signatures {
		if hmac.Equal(expected, []byte(signature)) {
			return true
		}
	}
	return false
}
