//! CRC-32 (IEEE, as zlib): the one owner of `crc32fast`.

/// CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}
