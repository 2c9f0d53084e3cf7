"""A statement and its result as a frame of polars: `tidegate serve`, then this with its address.

Usage: query.py [--user NAME] [--authority CA.pem] [--certificate OWN.pem --key OWN.key] HOST:PORT STATEMENT
The password of the user is in the variable TIDEGATE_PASSWORD. A file of the authority means TLS.
Needs `pip install adbc-driver-flightsql pyarrow polars`.
"""

import argparse
import os
import pathlib
import sys

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import polars
from adbc_driver_flightsql import DatabaseOptions


def connect(given):
    """A connection as the arguments say."""
    options, scheme = {}, "grpc"
    if given.authority:
        scheme = "grpc+tls"
        options[DatabaseOptions.TLS_ROOT_CERTS.value] = pathlib.Path(given.authority).read_text()
    if given.certificate:
        options[DatabaseOptions.MTLS_CERT_CHAIN.value] = pathlib.Path(given.certificate).read_text()
        options[DatabaseOptions.MTLS_PRIVATE_KEY.value] = pathlib.Path(given.key).read_text()
    if given.user:
        options["username"] = given.user
        options["password"] = os.environ.get("TIDEGATE_PASSWORD", "")
    return dbapi.connect(f"{scheme}://{given.address}", db_kwargs=options, autocommit=True)


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="HOST:PORT of a service")
    parser.add_argument("statement", help="SQL")
    parser.add_argument("--user", help="a role that may log in; TIDEGATE_PASSWORD has its password")
    parser.add_argument("--authority", help="PEM file of who issued the service's certificate: TLS")
    parser.add_argument("--certificate", help="PEM file of a certificate that says who calls")
    parser.add_argument("--key", help="PEM file of that certificate's key")
    return parser.parse_args()


def main():
    given = arguments()
    try:
        with connect(given) as connection:
            print(polars.read_database(given.statement, connection))
    except adbc_driver_manager.Error as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
