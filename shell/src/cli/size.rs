//! Sizes as people write them on the command line.

/// Bytes from `4096`, `64K`, `64KiB`, `1.5GiB`; K, M and G count in steps of 1024.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let wanted = || format!("'{text}' is no size: write 1048576, 512KiB, 64MiB or 2GiB");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wanted()),
    };
    let number: f64 = number.parse().map_err(|_| wanted())?;
    let bytes = number * f64::from(1_u32 << shift);
    if !(1.0..=1e15).contains(&bytes) {
        return Err(wanted());
    }
    Ok(bytes as usize)
}
