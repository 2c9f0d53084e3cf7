// What Go's driver for database/sql needs of the service: parameters, types, a session of its own.
//
// Usage: points HOST:PORT. The first step that fails ends the program.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	_ "github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
)

type step struct {
	name string
	run  func(*sql.DB) error
}

func main() {
	db, err := open("someone")
	stopAt("connect", err)
	defer db.Close()
	for _, step := range []step{
		{"narrow parameters", narrowParameters},
		{"parameters in the select list", selectList},
		{"text of every kind", text},
		{"affected rows", affectedRows},
		{"sessions of their own", sessions},
		{"long statements", longStatements},
	} {
		stopAt(step.name, step.run(db))
		fmt.Println("passed:", step.name)
	}
	fmt.Println("all steps passed")
}

func open(user string) (*sql.DB, error) {
	return sql.Open("flightsql", "flightsql://"+user+":anything@"+os.Args[1]+"?timeout=60s")
}

func stopAt(step string, err error) {
	if err != nil {
		fmt.Println("failed:", step+":", err)
		os.Exit(1)
	}
}

// query returns the first column of the first row.
func query(db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, text string, parameters ...any) (any, error) {
	rows, err := db.QueryContext(context.Background(), text, parameters...)
	if err != nil {
		return nil, fmt.Errorf("%.60s: %w", text, err)
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, fmt.Errorf("%.60s: no row: %v", text, rows.Err())
	}
	var value any
	if err := rows.Scan(&value); err != nil {
		return nil, fmt.Errorf("%.60s: %w", text, err)
	}
	return value, rows.Err()
}

func expect(db *sql.DB, wanted any, text string, parameters ...any) error {
	value, err := query(db, text, parameters...)
	if err == nil && !reflect.DeepEqual(value, wanted) {
		err = fmt.Errorf("%.60s: %v (%T), wanted %v (%T)", text, value, value, wanted, wanted)
	}
	return err
}

func refused(err error, words string) error {
	if err == nil || !strings.Contains(err.Error(), words) {
		return fmt.Errorf("wanted an error with '%s', got %v", words, err)
	}
	return nil
}

func narrowParameters(db *sql.DB) error {
	_, err := db.Exec("CREATE TABLE narrow (k int PRIMARY KEY, s smallint, t tinyint, f float, v text)")
	if err != nil {
		return err
	}
	insert := "INSERT INTO narrow VALUES (?, ?, ?, ?, ?)"
	if _, err := db.Exec(insert, 1, 2, 3, 0.1, "a"); err != nil {
		return err
	}
	for _, where := range []string{"k = ?", "s + 1 > ?", "t = 2 + ?"} {
		if err := expect(db, "a", "SELECT v FROM narrow WHERE "+where, 1); err != nil {
			return err
		}
	}
	if err := expect(db, "a", "SELECT v FROM narrow WHERE f = ?", 0.1); err != nil {
		return err
	}
	_, err = db.Exec(insert, 1, 40000, 3, 0.1, "a")
	return refused(err, "out of range")
}

func selectList(db *sql.DB) error {
	if err := expect(db, "x", "SELECT ?", "x"); err != nil {
		return err
	}
	if err := expect(db, int64(7), "SELECT CAST(? AS bigint)", 7); err != nil {
		return err
	}
	return expect(db, int64(3), "SELECT s + CAST(? AS smallint) + k - 1 FROM narrow", 1)
}

func text(db *sql.DB) error {
	if err := expect(db, "1", "SELECT CAST(k AS text) FROM narrow"); err != nil {
		return err
	}
	if err := expect(db, "A", "SELECT upper(v) FROM narrow"); err != nil {
		return err
	}
	value, err := query(db, "SELECT TIMESTAMP '2024-01-01T00:00:00Z'")
	if moment, ok := value.(time.Time); err == nil && (!ok || moment.Unix() != 1704067200) {
		err = fmt.Errorf("a timestamp is %v (%T)", value, value)
	}
	return err
}

func affectedRows(db *sql.DB) error {
	result, err := db.Exec("INSERT INTO narrow (k) VALUES (10), (11), (12)")
	if err != nil {
		return err
	}
	if count, err := result.RowsAffected(); err != nil || count != 3 {
		return fmt.Errorf("three rows count as %d: %v", count, err)
	}
	return nil
}

// sessions lets several connections of one user say USE at once. The driver sends its user with
// every call and has no token.
func sessions(db *sql.DB) error {
	for n := range 3 {
		for _, text := range []string{"CREATE KEYSPACE g%d", "CREATE TABLE g%d.t (k int PRIMARY KEY)", "INSERT INTO g%d.t VALUES (%[1]d)"} {
			if _, err := db.Exec(fmt.Sprintf(text, n)); err != nil {
				return err
			}
		}
	}
	var wait sync.WaitGroup
	errors := make([]error, 3)
	for n := range 3 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			errors[n] = reads(db, n)
		}()
	}
	wait.Wait()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func reads(db *sql.DB, n int) error {
	connection, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := connection.ExecContext(context.Background(), fmt.Sprintf("USE g%d", n)); err != nil {
		return err
	}
	for range 50 {
		value, err := query(connection, "SELECT k FROM t")
		if err != nil {
			return err
		}
		if value != int32(n) {
			return fmt.Errorf("a read in g%d found the row of g%v", n, value)
		}
	}
	// The pool hands the connection to others.
	_, err = connection.ExecContext(context.Background(), `USE "default"`)
	return err
}

func longStatements(db *sql.DB) error {
	nested := strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200)
	if err := expect(db, int64(1), "SELECT "+nested); err != nil {
		return err
	}
	ors := "k = 0" + strings.Repeat(" OR k = 10", 9999)
	return expect(db, int64(1), "SELECT count(*) FROM narrow WHERE "+ors)
}
