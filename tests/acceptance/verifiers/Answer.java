import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Reads requests from standard input, one a line: a text in quotes, of the body, the secret and, where there is a
 * header, a point and the header, each in base64; prints the status to answer each with.
 */
class Answer {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.replace("\"", "").split(" ");
            String secret = decoded(parts[1], StandardCharsets.UTF_8);
            // Servlets decode headers as Latin-1.
            String header = parts.length == 2 ? null : decoded(parts[2].substring(1), StandardCharsets.ISO_8859_1);
            System.out.println(Verify.refusal(Base64.getDecoder().decode(parts[0]), header, secret).orElse(200));
        }
    }

    private static String decoded(String text, Charset charset) {
        return new String(Base64.getDecoder().decode(text), charset);
    }
}
