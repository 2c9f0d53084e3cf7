//! What a fuzzer makes of ring files.

use super::RingFile;

/// A ring file. One that is taken gives each token to one node, and is the same when it is written
/// and read again.
pub(crate) fn ring_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok((file, plan)) = RingFile::parse(text) else { return };
    let throughs: Vec<i64> = plan.ranges.iter().map(|(through, _)| *through).collect();
    assert!(throughs.is_sorted_by(|a, b| a < b), "ranges overlap: {throughs:?}");
    assert_eq!(throughs.last(), Some(&i64::MAX), "there is a gap");
    assert!(plan.ranges.iter().all(|(_, node)| (*node as usize) < plan.nodes.len()));
    let (_, again) = RingFile::parse(&file.to_text()).expect("what was taken is taken again");
    assert_eq!(format!("{again:?}"), format!("{plan:?}"), "written and read again");
}

/// Right ones.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let even = |count: usize| {
        let node = |number| format!("n{number}=grpc://127.0.0.1:{}", 9000 + number);
        let nodes: Vec<String> = (0..count).map(node).collect();
        RingFile::even(&nodes).expect("nodes of different names").to_text()
    };
    let secured = even(2).replace("grpc://", "grpc+tls://");
    let secured = secured.replacen("\"nodes\"", "\"authority\": \"ca.pem\", \"nodes\"", 1);
    [even(1), even(3), secured].map(String::into_bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fuzzer_begins_with_is_taken() {
        for seed in seeds() {
            RingFile::parse(std::str::from_utf8(&seed).unwrap()).unwrap();
            ring_file(&seed);
        }
    }
}
