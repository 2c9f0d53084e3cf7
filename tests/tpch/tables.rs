//! The tables and queries of TPC-H: `tpchgen` makes the rows, and COPY loads them.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tpchgen::{csv, generators};

/// Tables with the columns of CREATE TABLE. Those below `orders` are flushed before the queries.
pub const TABLES: [(&str, &str); 8] = [
    ("region", "r_regionkey bigint, r_name text, r_comment text, PRIMARY KEY (r_regionkey)"),
    (
        "nation",
        "n_nationkey bigint, n_name text, n_regionkey bigint, n_comment text, \
         PRIMARY KEY (n_nationkey)",
    ),
    (
        "part",
        "p_partkey bigint, p_name text, p_mfgr text, p_brand text, p_type text, p_size int, \
         p_container text, p_retailprice decimal(15, 2), p_comment text, PRIMARY KEY (p_partkey)",
    ),
    (
        "supplier",
        "s_suppkey bigint, s_name text, s_address text, s_nationkey bigint, s_phone text, \
         s_acctbal decimal(15, 2), s_comment text, PRIMARY KEY (s_suppkey)",
    ),
    (
        "partsupp",
        "ps_partkey bigint, ps_suppkey bigint, ps_availqty int, ps_supplycost decimal(15, 2), \
         ps_comment text, PRIMARY KEY (ps_partkey, ps_suppkey)",
    ),
    (
        "customer",
        "c_custkey bigint, c_name text, c_address text, c_nationkey bigint, c_phone text, \
         c_acctbal decimal(15, 2), c_mktsegment text, c_comment text, PRIMARY KEY (c_custkey)",
    ),
    (
        "orders",
        "o_orderkey bigint, o_custkey bigint, o_orderstatus text, o_totalprice decimal(15, 2), \
         o_orderdate date, o_orderpriority text, o_clerk text, o_shippriority int, \
         o_comment text, PRIMARY KEY (o_orderkey)",
    ),
    (
        "lineitem",
        "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, \
         l_quantity decimal(15, 2), l_extendedprice decimal(15, 2), l_discount decimal(15, 2), \
         l_tax decimal(15, 2), l_returnflag text, l_linestatus text, l_shipdate date, \
         l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, \
         l_comment text, PRIMARY KEY (l_orderkey, l_linenumber)",
    ),
];

/// Where this file stands.
pub fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|folder| folder.join("ARCHITECTURE.md").exists());
    root.expect("the workspace's root has ARCHITECTURE.md").join("tests/tpch")
}

fn write_rows<T: Display>(file: &Path, heading: &str, rows: impl Iterator<Item = T>) {
    let mut file = BufWriter::new(File::create(file).unwrap());
    writeln!(file, "{heading}").unwrap();
    for row in rows {
        writeln!(file, "{row}").unwrap();
    }
    file.flush().unwrap();
}

/// Writes all tables as CSV.
pub fn write_tables(folder: &Path, scale: f64) {
    macro_rules! table {
        ($name:literal, $generator:ident, $csv:ident) => {
            let rows = generators::$generator::new(scale, 1, 1);
            let file = folder.join(concat!($name, ".csv"));
            write_rows(&file, csv::$csv::header(), rows.iter().map(csv::$csv::new));
        };
    }
    table!("region", RegionGenerator, RegionCsv);
    table!("nation", NationGenerator, NationCsv);
    table!("part", PartGenerator, PartCsv);
    table!("supplier", SupplierGenerator, SupplierCsv);
    table!("partsupp", PartSuppGenerator, PartSuppCsv);
    table!("customer", CustomerGenerator, CustomerCsv);
    table!("orders", OrderGenerator, OrderCsv);
    table!("lineitem", LineItemGenerator, LineItemCsv);
}

/// The text of a query, `q01` to `q22`, for tables of this scale.
pub fn query(name: &str, scale: f64) -> String {
    let text = fs::read_to_string(folder().join(format!("queries/{name}.sql")))
        .expect("each query is a file");
    text.replace("{fraction}", &format!("{:.10}", 0.0001 / scale))
}
