<?php
// Reads requests from standard input, a JSON document a line: {body, header, secret}, in which every text is
// {"base64": ...}; prints the status to answer each with.
set_error_handler(function (int $level, string $message, string $file, int $line) {
    throw new ErrorException($message, 0, $level, $file, $line);
});
require $argv[1];

function decoded(mixed $value): mixed
{
    if (!is_array($value)) return $value;
    return isset($value['base64']) ? base64_decode($value['base64']) : array_map('decoded', $value);
}

while (($line = fgets(STDIN)) !== false) {
    ['body' => $body, 'header' => $header, 'secret' => $secret] = decoded(json_decode($line, true));
    echo refusal($body, $header, $secret) ?? 200, "\n";
}
