// Receive webhooks in Go: verify, keep in a table (inbox.sql), answer, and work afterwards.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"receiver/webhook" // docs/verify/verify.go
)

const keep = "INSERT INTO inbox (id, body) VALUES ($1::json ->> 'id', $1) ON CONFLICT (id) DO NOTHING"
const next = `UPDATE inbox SET is_done = true WHERE id = (SELECT id FROM inbox WHERE NOT is_done
ORDER BY n LIMIT 1 FOR UPDATE) RETURNING body ->> 'type', id`

type inbox struct{ *pgxpool.Pool }

func (in inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // what was cut short is not signed
	switch err := webhook.Verify(body, r.Header.Values("Service-Signature"), os.Getenv("SECRET")); {
	case errors.Is(err, webhook.ErrStale):
		w.WriteHeader(http.StatusBadRequest)
		return
	case err != nil:
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if _, err := in.Exec(r.Context(), keep, body); err != nil {
		http.Error(w, "try again later", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	go in.work()
}

// Works on what is kept, in order. Where that fails, the next event tries again.
func (in inbox) work() {
	var err error
	for err == nil {
		err = pgx.BeginFunc(context.Background(), in, func(tx pgx.Tx) error {
			var kind, id string
			err := tx.QueryRow(context.Background(), next).Scan(&kind, &id)
			if err == nil {
				fmt.Println(kind, id) // yours, in the transaction that says it is done
			}
			return err
		})
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		log.Print(err)
	}
}

func main() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	go inbox{pool}.work() // what a crash has left
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), inbox{pool}))
}
