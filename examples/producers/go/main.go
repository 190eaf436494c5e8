// Change a charge and tell its merchant, in one transaction, with pgx.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

const update = "UPDATE charge SET status = $1 WHERE id = $2 RETURNING merchant_id"
const tell = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3)"

func change(ctx context.Context, conn *pgx.Conn, id, status string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var merchant string
		if err := tx.QueryRow(ctx, update, status, id).Scan(&merchant); err != nil {
			return err
		}
		shown := map[string]string{"id": id, "status": status} // all that GET /v1/charges/{id} answers
		_, err := tx.Exec(ctx, tell, merchant, "charge."+status, shown)
		return err
	})
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err == nil {
		err = change(ctx, conn, os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nothing was changed:", err)
		os.Exit(1)
	}
}
