<?php
// Verify a webhook's signature. Pass the raw body: file_get_contents('php://input').

const TOLERANCE = 300; // seconds

// Returns the status to refuse an event with, or null to accept it: 401 wrong signature, 400 stale.
// $header: $_SERVER['HTTP_SERVICE_SIGNATURE'] ?? null; any one `v1` is enough (two during a rotation).
function refusal(string $body, mixed $header, string $secret): ?int
{
    $stamps = [];
    $signatures = [];
    foreach (is_string($header) ? explode(',', $header) : [] as $part) {
        $part = trim($part, ' ');
        if (str_starts_with($part, 't=')) $stamps[] = substr($part, 2);
        if (str_starts_with($part, 'v1=')) $signatures[] = substr($part, 3);
    }
    if (count($stamps) !== 1 || !preg_match('/^[0-9]{1,12}$/D', $stamps[0])) return 401;
    $expected = hash_hmac('sha256', $stamps[0] . '.' . $body, $secret);
    foreach ($signatures as $signature) {
        if (hash_equals($expected, $signature)) {
            return abs(time() - (int) $stamps[0]) > TOLERANCE ? 400 : null;
        }
    }
    return 401;
}
