<?php
// Verify a webhook's signature. Pass the raw body: file_get_contents('php://input').

const TOLERANCE = 300; // seconds

// Tells whether `Service-Signature` fits the body; any one `v1` is enough (two during a rotation).
function verify(string $body, string $header, string $secret): bool
{
    $stamps = [];
    $signatures = [];
    foreach (explode(',', $header) as $part) {
        [$name, $value] = explode('=', $part, 2) + ['', ''];
        if ($name === 't') $stamps[] = $value;
        if ($name === 'v1') $signatures[] = $value;
    }
    if (count($stamps) !== 1 || !preg_match('/^[0-9]{1,12}$/D', $stamps[0])) return false;
    if (abs(time() - (int) $stamps[0]) > TOLERANCE) return false;
    $expected = hash_hmac('sha256', $stamps[0] . '.' . $body, $secret);
    foreach ($signatures as $signature) {
        if (hash_equals($expected, $signature)) return true;
    }
    return false;
}
