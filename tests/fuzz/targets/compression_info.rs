//! An SSTable whose `CompressionInfo` component is whatever the fuzzer makes it.

#![no_main]

libfuzzer_sys::fuzz_target!(|content: &[u8]| {
    tidegate_fuzz::read_with(tidegate_engine::sstable::Component::CompressionInfo, content);
});
