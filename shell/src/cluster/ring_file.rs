//! The ring file: which node has which tokens, where each listens, and the key by which they know
//! each other. All nodes have the same file.
//!
//! ```json
//! { "version": 1, "key": "64 hexadecimal digits",
//!   "nodes": { "a": "grpc://10.0.0.1:31337", "b": "grpc://10.0.0.2:31337" },
//!   "ranges": [ { "through": -1, "node": "a" }, { "through": 9223372036854775807, "node": "b" } ] }
//! ```
//! Each range begins behind the one before, so there are no gaps and no overlaps. With `authority`,
//! a file of certificates in PEM beside the ring file, nodes speak TLS and have certificates of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tidegate_engine::hex::{Hex, unhex};

use crate::stderr::tell_line;
use crate::token::random_key;

/// Bytes of the key.
pub const KEY_BYTES: usize = 32;
/// Most nodes of a ring: each asks each.
const NODES_MAX: usize = 256;
/// Rights of others to the file, none of which they should have.
const OF_OTHERS: u32 = 0o077;
/// Schemes of an address, and whether they are of TLS.
const SCHEMES: [(&str, bool); 2] = [("grpc://", false), ("grpc+tls://", true)];

/// See the head of this file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingFile {
    /// Counts the changes of the file: nodes with another version do not answer each other.
    pub version: u64,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
    nodes: BTreeMap<String, String>,
    ranges: Vec<RangeEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeEntry {
    through: i64,
    node: String,
}

/// A ring as it is used.
#[derive(Debug, Clone)]
pub(crate) struct RingPlan {
    pub version: u64,
    pub key: [u8; KEY_BYTES],
    /// Certificates that others' are checked by, in PEM.
    pub authority: Option<String>,
    /// Names and addresses, in the order of names.
    pub nodes: Vec<(String, String)>,
    /// The last token of each range, and the place of its node.
    pub ranges: Vec<(i64, u32)>,
}

impl RingFile {
    /// A ring of nodes with parts of the same size; each is given as `name=address`.
    ///
    /// Errors: a sentence for what is no node, and for two of one name.
    pub fn even(nodes: &[String]) -> Result<Self, String> {
        let mut named = BTreeMap::new();
        for node in nodes {
            let (name, address) = node
                .split_once('=')
                .ok_or_else(|| format!("'{node}' is no node: write name=grpc://host:31337"))?;
            if named.insert(name.to_owned(), address.to_owned()).is_some() {
                return Err(format!("two nodes are called '{name}'"));
            }
        }
        let count = named.len() as u128;
        let through = |place: u128| {
            // The last token of the part at this place.
            let end = ((place + 1) << 64) / count;
            (end as i128 - 1 - (1 << 63)) as i64
        };
        let ranges = (0..).zip(named.keys());
        let ranges =
            ranges.map(|(place, name)| RangeEntry { through: through(place), node: name.clone() });
        let key = Hex(&random_key()?).to_string();
        let ranges = ranges.collect();
        let file = RingFile { version: 1, key, authority: None, nodes: named, ranges };
        file.checked()?;
        Ok(file)
    }

    /// As text.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers are JSON")
    }

    /// The ring in a file.
    ///
    /// Errors: a sentence that names the file and what is wrong.
    pub(crate) fn load(path: &Path) -> Result<RingPlan, String> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the ring file {shown}: {error}"))?;
        let mode = fs::metadata(path).map(|data| data.permissions().mode());
        if mode.is_ok_and(|mode| mode & OF_OTHERS != 0) {
            tell_line!(
                "warning: others may read {shown}, and be taken for a node: chmod 600 {shown}"
            );
        }
        let (file, mut plan) =
            RingFile::parse(&text).map_err(|error| format!("ring file {shown}: {error}"))?;
        if let Some(authority) = &file.authority {
            let authority = path.parent().unwrap_or(Path::new(".")).join(authority);
            let pem = fs::read_to_string(&authority).map_err(|error| {
                format!("ring file {shown}: cannot read {}: {error}", authority.display())
            })?;
            plan.authority = Some(pem);
        }
        Ok(plan)
    }

    /// A ring as it is written, and as it is used without its authority.
    ///
    /// Errors: a sentence that says what is wrong.
    pub(super) fn parse(text: &str) -> Result<(Self, RingPlan), String> {
        let file: RingFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let plan = file.checked()?;
        Ok((file, plan))
    }

    fn checked(&self) -> Result<RingPlan, String> {
        if self.nodes.is_empty() || self.nodes.len() > NODES_MAX {
            return Err(format!("{} nodes: 1 to {NODES_MAX} make a ring", self.nodes.len()));
        }
        let key = unhex(&self.key).and_then(|key| key.try_into().ok()).ok_or_else(|| {
            format!("key: wanted {} hexadecimal digits; tidegate ring makes one", 2 * KEY_BYTES)
        })?;
        for (name, address) in &self.nodes {
            check_address(address, self.authority.is_some())
                .map_err(|error| format!("node '{name}': {error}"))?;
        }
        let place = |node: &str| self.nodes.keys().position(|name| name == node);
        let mut ranges: Vec<(i64, u32)> = Vec::new();
        for RangeEntry { through, node } in &self.ranges {
            let place = place(node)
                .ok_or_else(|| format!("the range through {through} is of '{node}', no node"))?;
            if let Some((before, _)) = ranges.last().filter(|(before, _)| before >= through) {
                return Err(format!(
                    "the range through {through} stands behind one through {before}: ranges rise"
                ));
            }
            ranges.push((*through, place as u32));
        }
        match ranges.last() {
            Some((i64::MAX, _)) => {}
            _ => return Err(format!("the last range is not through {}", i64::MAX)),
        }
        let nodes = self.nodes.iter().map(|(name, address)| (name.clone(), address.clone()));
        let nodes = nodes.collect();
        Ok(RingPlan { version: self.version, key, authority: None, nodes, ranges })
    }
}

impl RingPlan {
    /// The place of a node.
    ///
    /// Errors: a sentence that lists the nodes.
    pub fn place_of(&self, name: &str) -> Result<u32, String> {
        let place = self.nodes.iter().position(|(node, _)| node == name);
        place.map(|place| place as u32).ok_or_else(|| {
            let names: Vec<&str> = self.nodes.iter().map(|(name, _)| name.as_str()).collect();
            format!("the ring has no node '{name}', but {}", names.join(", "))
        })
    }
}

fn check_address(address: &str, has_authority: bool) -> Result<(), String> {
    let found = SCHEMES.into_iter().find_map(|(scheme, is_tls)| {
        let (host, port) = address.strip_prefix(scheme)?.rsplit_once(':')?;
        let is_host =
            !host.is_empty() && !host.contains(|c: char| "/?#@".contains(c) || c.is_whitespace());
        (is_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(is_tls)
    });
    match (found, has_authority) {
        (None, _) => Err(format!(
            "'{address}' is no place: write grpc://host:31337, or grpc+tls://host:31337"
        )),
        (Some(true), false) => Err(format!(
            "{address} wants \"authority\": a file of the certificates that nodes' are checked by"
        )),
        (Some(false), true) => {
            Err(format!("{address} is plain, and there is an authority: write grpc+tls://"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(count: usize) -> RingFile {
        let node = |number: usize| format!("n{number:02}=grpc://127.0.0.1:{}", 9000 + number);
        RingFile::even(&(0..count).map(node).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn even_rings_have_parts_of_one_size() {
        for count in [1, 2, 3, 7, 256] {
            let plan = even(count).checked().unwrap();
            assert_eq!(plan.ranges.len(), count);
            let mut first = i128::from(i64::MIN);
            for (place, (through, node)) in (0..).zip(&plan.ranges) {
                assert_eq!(*node, place);
                let size = i128::from(*through) + 1 - first;
                let wanted = (1_i128 << 64) / count as i128;
                assert!((size - wanted).abs() <= 1, "{count}: {size}");
                first = i128::from(*through) + 1;
            }
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring.json");
        let file = even(3);
        fs::write(&path, file.to_text()).unwrap();
        let plan = RingFile::load(&path).unwrap();
        assert_eq!((plan.version, plan.nodes.len()), (1, 3));
        assert_eq!(plan.place_of("n02"), Ok(2));
        let error = plan.place_of("x").unwrap_err();
        assert_eq!(error, "the ring has no node 'x', but n00, n01, n02");
    }

    #[test]
    fn files_with_gaps_strangers_and_mistakes_are_refused() {
        let whole = even(2).to_text();
        let with = |from: &str, to: &str| {
            assert!(whole.contains(from), "{from}");
            whole.replacen(from, to, 1)
        };
        let last = format!("\"through\": {}", i64::MAX);
        for (text, says) in [
            (with("\"version\": 1,", ""), "missing field `version`"),
            (with("\"version\"", "\"versoin\""), "unknown field `versoin`"),
            (with(&last, "\"through\": 7"), "the last range is not through 9223372036854775807"),
            (with("\"through\": -1", &last), "ranges rise"),
            (with("\"node\": \"n00\"", "\"node\": \"x\""), "of 'x', no node"),
            (with("grpc://127.0.0.1:9000", "127.0.0.1:9000"), "is no place"),
            (with("grpc://127.0.0.1:9000", "grpc+tls://a:9000"), "wants \"authority\""),
            (with("\"key\": \"", "\"key\": \"z"), "wanted 64 hexadecimal digits"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("ring.json");
            fs::write(&path, text).unwrap();
            let error = RingFile::load(&path).unwrap_err();
            assert!(error.contains(says) && error.contains("ring.json"), "{says}: {error}");
        }
        let twice = ["a=grpc://h:1".to_owned(), "a=grpc://h:2".to_owned()];
        assert_eq!(RingFile::even(&twice).unwrap_err(), "two nodes are called 'a'");
        assert!(RingFile::even(&["a".to_owned()]).unwrap_err().contains("is no node"));
        assert!(RingFile::even(&[]).unwrap_err().contains("0 nodes"));
    }

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port_of_tls_where_there_is_an_authority() {
        let places = [
            ("h:1", true),
            ("10.0.0.1:65535", true),
            ("[::1]:31337", true),
            ("a.example.com:31337", true),
            ("h:0", false),
            ("h:65536", false),
            ("h:-1", false),
            ("h:x", false),
            ("h:", false),
            ("h", false),
            (":1", false),
            ("u@h:1", false),
            ("h/x:1", false),
            ("h?x:1", false),
            ("h#x:1", false),
            ("a b:1", false),
            ("h:1/", false),
        ];
        for (place, is_one) in places {
            for (scheme, is_tls) in SCHEMES {
                for has_authority in [false, true] {
                    let address = format!("{scheme}{place}");
                    let found = check_address(&address, has_authority);
                    let says = match (is_one, is_tls == has_authority) {
                        (true, true) => {
                            assert_eq!(found, Ok(()), "{address}");
                            continue;
                        }
                        (false, _) => "is no place",
                        (true, false) if is_tls => "wants \"authority\"",
                        (true, false) => "is plain, and there is an authority",
                    };
                    let error = found.expect_err(&address);
                    assert!(error.contains(says) && error.contains(&address), "{says}: {error}");
                }
            }
        }
        for address in ["", "h:1", "http://h:1", "GRPC://h:1", "grpc:/h:1", " grpc://h:1"] {
            assert!(check_address(address, false).unwrap_err().contains("is no place"));
        }
    }

    #[test]
    fn an_authority_is_read_beside_the_ring_file_and_named_where_it_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring.json");
        let mut file = even(2);
        fs::write(&path, file.to_text()).unwrap();
        assert_eq!(RingFile::load(&path).unwrap().authority, None);
        for address in file.nodes.values_mut() {
            *address = address.replacen("grpc://", "grpc+tls://", 1);
        }
        let other = elsewhere.path().join("other.pem");
        for (named, place) in [
            ("ca.pem".to_owned(), directory.path().join("ca.pem")),
            (other.display().to_string(), other),
        ] {
            file.authority = Some(named);
            fs::write(&path, file.to_text()).unwrap();
            let error = RingFile::load(&path).unwrap_err();
            let says = format!("cannot read {}: ", place.display());
            assert!(error.contains(&says) && error.contains("ring.json"), "{error}");
            fs::write(&place, "certificates").unwrap();
            let plan = RingFile::load(&path).unwrap();
            assert_eq!(plan.authority.as_deref(), Some("certificates"));
            assert!(plan.nodes.iter().all(|(_, address)| address.starts_with("grpc+tls://")));
        }
    }

    #[test]
    fn a_ring_has_no_more_nodes_than_may_ask_each_other_and_a_whole_key() {
        let node = |n: usize| format!("n{n}=grpc://127.0.0.1:{}", 9000 + n);
        let nodes: Vec<String> = (0..=NODES_MAX).map(node).collect();
        assert!(RingFile::even(&nodes[1..]).is_ok());
        let error = RingFile::even(&nodes).unwrap_err();
        assert_eq!(error, format!("{} nodes: 1 to {NODES_MAX} make a ring", NODES_MAX + 1));
        let whole = even(2);
        let long = format!("{}00", whole.key);
        for key in ["", &whole.key[1..], &whole.key[2..], long.as_str()] {
            let key = key.to_owned();
            let error = RingFile { key, ..whole.clone() }.checked().unwrap_err();
            assert!(error.contains("wanted 64 hexadecimal digits"), "{error}");
        }
        let none = RingFile { ranges: Vec::new(), ..whole.clone() }.checked().unwrap_err();
        assert!(none.contains("the last range is not through"), "{none}");
        let mut falling = whole;
        falling.ranges[0].through = i64::MAX;
        falling.ranges[1].through = 0;
        let error = falling.checked().unwrap_err();
        assert!(error.contains("the range through 0 stands behind one through"), "{error}");
    }
}
