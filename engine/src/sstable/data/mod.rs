//! Files of SSTables as bytes: written in pieces, read with every page checked, compressed or not.

mod begun;
pub(crate) mod compressed;
pub(crate) mod file;
#[cfg(test)]
mod tests;
pub(crate) mod window;
