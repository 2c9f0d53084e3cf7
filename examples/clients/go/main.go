// A statement and its result by Go's driver: `tidegate serve`, then this with its address.
//
//	TIDEGATE_PASSWORD=… go run . [-user NAME] [-authority CA.pem] [-certificate OWN.pem -key OWN.key] HOST:PORT STATEMENT
//
// A file of the authority means TLS.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
)

var (
	user        = flag.String("user", "", "a role that may log in; TIDEGATE_PASSWORD has its password")
	authority   = flag.String("authority", "", "PEM file of who issued the service's certificate: TLS")
	certificate = flag.String("certificate", "", "PEM file of a certificate that says who calls")
	key         = flag.String("key", "", "PEM file of that certificate's key")
)

func main() {
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(address, statement string) error {
	source, err := source(address)
	if err != nil {
		return err
	}
	db, err := sql.Open("flightsql", source)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query(statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	return print(rows)
}

// source is where the driver finds the service, and who calls.
func source(address string) (string, error) {
	source := url.URL{Scheme: "flightsql", Host: address}
	options := url.Values{"timeout": {"60s"}}
	if *user != "" {
		source.User = url.UserPassword(*user, os.Getenv("TIDEGATE_PASSWORD"))
	}
	if *authority != "" {
		config, err := trusting()
		if err != nil {
			return "", err
		}
		if err := driver.RegisterTLSConfig("tidegate", config); err != nil {
			return "", err
		}
		options.Set("tls", "tidegate")
	}
	source.RawQuery = options.Encode()
	return source.String(), nil
}

// trusting is TLS that trusts the authority, and shows the certificate where there is one.
func trusting() (*tls.Config, error) {
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", *authority)
	}
	if *certificate != "" {
		own, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func print(rows *sql.Rows) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(columns, "\t"))
	values, places := make([]any, len(columns)), make([]any, len(columns))
	for n := range values {
		places[n] = &values[n]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		texts := make([]string, len(values))
		for n, value := range values {
			texts[n] = fmt.Sprint(value)
		}
		fmt.Println(strings.Join(texts, "\t"))
	}
	return rows.Err()
}
