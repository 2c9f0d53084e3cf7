//! The common name in the subject of a certificate.
//!
//! The certificate was verified before: what is read here is the order of its fields. Invariant:
//! bytes that are no certificate, or name nobody or several, give no name.

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
/// Of the version, which stands first where it is said.
const VERSION: u8 = 0xa0;

/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The common name of the subject of a certificate in DER.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let (whole, _) = content(certificate, SEQUENCE)?;
    let (fields, _) = content(whole, SEQUENCE)?;
    let mut rest = match content(fields, VERSION) {
        Some((_, rest)) => rest,
        None => fields,
    };
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        rest = any(rest)?.2;
    }
    let (mut subject, _) = content(rest, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let (mut set, next) = content(subject, SET)?;
        subject = next;
        while !set.is_empty() {
            let (attribute, next) = content(set, SEQUENCE)?;
            set = next;
            let (kind, value) = content(attribute, OBJECT_IDENTIFIER)?;
            if kind == COMMON_NAME && found.replace(text(value)?).is_some() {
                return None;
            }
        }
    }
    found
}

fn text(value: &[u8]) -> Option<String> {
    let (tag, bytes, _) = any(value)?;
    let is_text = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&tag);
    let text = std::str::from_utf8(bytes).ok().filter(|text| is_text && !text.is_empty())?;
    Some(text.to_owned())
}

/// The content of the element that begins here, if it has this tag, and what follows it.
fn content(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(bytes)?;
    (found == tag).then_some((content, rest))
}

/// Tag and content of the element that begins here, and what follows it.
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        0x81..=0x84 => {
            let (digits, bytes) = bytes.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), bytes)
        }
        _ => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_found_among_other_names() {
        let long = "x".repeat(300);
        for (names, wanted) in [
            (vec![(DnType::CommonName, "ann")], Some("ann")),
            (vec![(DnType::CommonName, "änn")], Some("änn")),
            (vec![(DnType::CommonName, &long)], Some(long.as_str())),
            (
                vec![
                    (DnType::OrganizationName, "o"),
                    (DnType::CommonName, "ann"),
                    (DnType::CountryName, "CH"),
                ],
                Some("ann"),
            ),
            (vec![(DnType::OrganizationName, "ann")], None),
            (vec![], None),
        ] {
            assert_eq!(common_name(&certificate(&names)).as_deref(), wanted);
        }
    }

    #[test]
    fn damaged_bytes_give_no_panic() {
        let whole = certificate(&[(DnType::CommonName, "ann")]);
        for end in 0..whole.len() {
            assert_eq!(common_name(&whole[..end]), None, "{end}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let _ = common_name(&damaged);
            }
        }
    }

    /// A short element of DER.
    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 0x80, "a longer one has another head");
        [&[tag, length], content.as_slice()].concat()
    }

    fn attribute(kind: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[&element(OBJECT_IDENTIFIER, &[kind]), &element(tag, &[text])])
    }

    fn set(attributes: &[Vec<u8>]) -> Vec<u8> {
        element(SET, &[&attributes.concat()])
    }

    /// A certificate as far as it is read, with this version and this subject.
    fn with_subject(version: &[u8], subject: &[u8]) -> Vec<u8> {
        let number = element(0x02, &[&[1]]);
        let issuer = element(SEQUENCE, &[&set(&[attribute(COMMON_NAME, UTF8_STRING, b"ca")])]);
        let (empty, subject) = (element(SEQUENCE, &[]), element(SEQUENCE, &[subject]));
        let fields = element(SEQUENCE, &[version, &number, &empty, &issuer, &empty, &subject]);
        element(SEQUENCE, &[&fields])
    }

    #[test]
    fn a_subject_with_two_common_names_or_with_none_that_is_text_names_nobody() {
        let version = element(VERSION, &[&element(0x02, &[&[2]])]);
        let named = |tag, text: &[u8]| attribute(COMMON_NAME, tag, text);
        let ann = || named(UTF8_STRING, b"ann");
        let other = || attribute(&[0x55, 0x04, 0x0a], UTF8_STRING, b"o");
        for (subject, wanted) in [
            (set(&[ann()]), Some("ann")),
            (set(&[other(), ann()]), Some("ann")),
            (set(&[ann(), other()]), Some("ann")),
            ([set(&[other()]), set(&[ann()])].concat(), Some("ann")),
            ([set(&[ann()]), set(&[ann()])].concat(), None),
            ([set(&[ann()]), set(&[other()]), set(&[named(UTF8_STRING, b"bob")])].concat(), None),
            (set(&[ann(), ann()]), None),
            (set(&[named(PRINTABLE_STRING, b"ann")]), Some("ann")),
            (set(&[named(IA5_STRING, b"ann")]), Some("ann")),
            // Text of two bytes each, and bytes.
            (set(&[named(0x1e, b"ann")]), None),
            (set(&[named(0x04, b"ann")]), None),
            (set(&[named(UTF8_STRING, b"")]), None),
            (set(&[named(UTF8_STRING, b"\xff")]), None),
            (Vec::new(), None),
        ] {
            for version in [&version[..], &[]] {
                let found = common_name(&with_subject(version, &subject));
                assert_eq!(found.as_deref(), wanted, "{version:?}, {subject:x?}");
            }
        }
    }
}
