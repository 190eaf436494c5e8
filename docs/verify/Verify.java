import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies a webhook's signature; for Java 11 and later. */
public final class Verify {
    private static final long TOLERANCE = 300; // seconds

    private Verify() {}

    /**
     * Returns the status to refuse an event with, or nothing to accept it: 401 wrong signature, 400 stale.
     *
     * @param body the raw body, before anything parses it: request.getInputStream().readAllBytes()
     * @param header request.getHeader("Service-Signature"); any one v1 is enough (two during a rotation)
     */
    public static OptionalInt refusal(byte[] body, String header, String secret) {
        List<String> stamps = new ArrayList<>();
        List<String> signatures = new ArrayList<>();
        for (String part : header == null ? new String[0] : header.split(",")) {
            part = part.strip();
            if (part.startsWith("t=")) stamps.add(part.substring(2));
            if (part.startsWith("v1=")) signatures.add(part.substring(3));
        }
        if (stamps.size() != 1 || !stamps.get(0).matches("[0-9]{1,12}")) return OptionalInt.of(401);
        byte[] expected = hmac(secret, stamps.get(0) + ".", body).getBytes(StandardCharsets.UTF_8);
        for (String signature : signatures) {
            if (MessageDigest.isEqual(expected, signature.getBytes(StandardCharsets.UTF_8))) {
                long off = Math.abs(System.currentTimeMillis() - Long.parseLong(stamps.get(0)) * 1000);
                return off > TOLERANCE * 1000 ? OptionalInt.of(400) : OptionalInt.empty();
            }
        }
        return OptionalInt.of(401);
    }

    private static String hmac(String secret, String start, byte[] body) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            mac.update(start.getBytes(StandardCharsets.UTF_8));
            return String.format("%064x", new BigInteger(1, mac.doFinal(body)));
        } catch (GeneralSecurityException impossible) { // every Java has HmacSHA256
            throw new IllegalStateException(impossible);
        }
    }
}
