//! CRC32 (IEEE polynomial) of bytes on disk.
//!
//! The one module that names crc32fast.

/// CRC32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// A CRC32 taken in pieces: the result depends on the bytes, not on how they were cut.
#[derive(Debug, Clone, Default)]
pub struct Crc32 {
    hasher: crc32fast::Hasher,
}

impl Crc32 {
    pub fn new() -> Self {
        Crc32::default()
    }

    /// A CRC that goes on from `crc`, the sum of everything before.
    pub fn resumed(crc: u32) -> Self {
        Crc32 { hasher: crc32fast::Hasher::new_with_initial(crc) }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The sum of all bytes so far.
    pub fn finish(&self) -> u32 {
        self.hasher.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomial_is_ieee_and_pieces_add_up() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        let mut crc = Crc32::new();
        crc.update(b"1234");
        let mut resumed = Crc32::resumed(crc.finish());
        crc.update(b"56789");
        resumed.update(b"56789");
        assert_eq!((crc.finish(), resumed.finish()), (0xCBF4_3926, 0xCBF4_3926));
    }
}
