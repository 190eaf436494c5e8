import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

/** Changes a charge and tells its merchant, in one transaction, with JDBC. */
class Change {
    static final String UPDATE = "UPDATE charge SET status = ? WHERE id = ? RETURNING merchant_id";
    static final String TELL = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES (?, ?, ?::json)";

    static void change(Connection connection, String chargeId, String status) throws SQLException {
        connection.setAutoCommit(false);
        try (var update = connection.prepareStatement(UPDATE); var tell = connection.prepareStatement(TELL)) {
            update.setString(1, status);
            update.setString(2, chargeId);
            var charge = update.executeQuery();
            if (!charge.next()) throw new SQLException("no charge " + chargeId);
            tell.setString(1, charge.getString("merchant_id"));
            tell.setString(2, "charge." + status);
            // What GET /v1/charges/{id} answers: yours has all of it, by the same mapper.
            tell.setString(3, String.format("{\"id\":\"%s\",\"status\":\"%s\"}", chargeId, status));
            tell.executeUpdate();
            connection.commit();
        } catch (SQLException refused) {
            connection.rollback();
            throw refused;
        }
    }

    /** DATABASE_URL is JDBC's here: jdbc:postgresql://host/charges?user=…&password=… */
    public static void main(String[] args) throws SQLException {
        try (var connection = DriverManager.getConnection(System.getenv("DATABASE_URL"))) {
            change(connection, args[0], args[1]);
        } catch (SQLException refused) {
            System.err.println("nothing was changed: " + refused.getMessage());
            System.exit(1);
        }
    }
}
