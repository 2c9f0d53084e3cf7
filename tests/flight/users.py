"""Users of a Tidegate service behind TLS, with the ADBC driver and pyarrow.

Usage: users.py users|renewed HOST:PORT DIRECTORY-OF-CERTIFICATES
"""

import pathlib
import sys

import adbc_driver_manager
import pyarrow.flight
from adbc_driver_flightsql import DatabaseOptions, dbapi

PART, ADDRESS, DIRECTORY = sys.argv[1:]
URI = f"grpc+tls://{ADDRESS}"
CALL_SECONDS_MAX = "30"


def text(name):
    return pathlib.Path(DIRECTORY, name).read_text()


def connect(uri=URI, authority="ca.pem", certificate=None, **kwargs):
    options = {
        DatabaseOptions.TIMEOUT_FETCH.value: CALL_SECONDS_MAX,
        DatabaseOptions.TIMEOUT_QUERY.value: CALL_SECONDS_MAX,
        DatabaseOptions.TIMEOUT_UPDATE.value: CALL_SECONDS_MAX,
        **kwargs,
    }
    if uri == URI:
        options[DatabaseOptions.TLS_ROOT_CERTS.value] = text(authority)
    if certificate is not None:
        options[DatabaseOptions.MTLS_CERT_CHAIN.value] = text(f"{certificate}.pem")
        options[DatabaseOptions.MTLS_PRIVATE_KEY.value] = text(f"{certificate}.key")
    return dbapi.connect(uri, db_kwargs=options, autocommit=True)


def fetch(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def refused(words, work):
    try:
        work()
    except adbc_driver_manager.Error as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError(f"not refused: {words}")


def may_read_and_not_write(connection):
    assert fetch(connection, "SELECT v FROM t WHERE pk = 1") == [(7,)]
    insert = "INSERT INTO t (pk, v) VALUES (2, 2)"
    refused("no MODIFY on TABLE default.t", lambda: fetch(connection, insert))
    refused("no SELECT on TABLE default.other", lambda: fetch(connection, "SELECT * FROM other"))


def password():
    with connect(username="ann", password="ann-word") as connection:
        may_read_and_not_write(connection)


def superuser():
    with connect(username="root", password="root-word") as connection:
        assert fetch(connection, "SELECT count(*) FROM other") == [(0,)]
        listed = fetch(connection, "LIST ROLES")
        assert [row[0] for row in listed] == ["ann", "root"], listed
        with connection.cursor() as cursor:
            cursor.execute("GRANT MODIFY ON other TO ann")
            cursor.execute("REVOKE MODIFY ON other FROM ann")


def wrong():
    refused("user or password is wrong", lambda: connect(username="ann", password="x"))
    refused("user or password is wrong", lambda: connect(username="x", password="x"))

    def without():
        with connect() as connection:
            fetch(connection, "SELECT 1")

    refused("'authorization' is missing", without)


def plain():
    refused("", lambda: connect(uri=f"grpc://{ADDRESS}", username="ann", password="ann-word"))


def foreign_authority():
    refused("", lambda: connect(authority="other-ca.pem", username="ann", password="ann-word"))


def certificate_of_a_client():
    with connect(certificate="ann") as connection:
        may_read_and_not_write(connection)

    def nobody():
        with connect(certificate="nobody") as connection:
            fetch(connection, "SELECT 1")

    refused("role 'nobody' may not log in", nobody)

    def stranger():
        with connect(certificate="stranger") as connection:
            fetch(connection, "SELECT 1")

    refused("", stranger)


def pyarrow_flight():
    client = pyarrow.flight.FlightClient(URI, tls_root_certs=text("ca.pem"))
    token = client.authenticate_basic_token("ann", "ann-word")
    options = pyarrow.flight.FlightCallOptions(headers=[token])
    flights = [tuple(info.descriptor.path) for info in client.list_flights(options=options)]
    assert len(flights) == 1, "what ann may read"
    try:
        client.authenticate_basic_token("ann", "wrong")
    except pyarrow.flight.FlightUnauthenticatedError as error:
        assert "user or password is wrong" in str(error), str(error)
    else:
        raise AssertionError("a wrong password")


def renewed():
    refused("", lambda: connect(username="ann", password="ann-word"))
    with connect(authority="next-ca.pem", username="ann", password="ann-word") as connection:
        may_read_and_not_write(connection)


PARTS = {
    "users": [
        password,
        superuser,
        wrong,
        plain,
        foreign_authority,
        certificate_of_a_client,
        pyarrow_flight,
    ],
    "renewed": [renewed],
}

for step in PARTS[PART]:
    step()
    print(f"{step.__name__}: ok")
