//! Sizes on the command line.

/// Parses a size in bytes, such as `512M`: from 4 KiB to below 1 EiB.
///
/// # Errors
/// The size is invalid or out of range; the message gives examples.
pub fn size(text: &str) -> Result<u64, String> {
    bytes(text).filter(|bytes| (4096..1 << 60).contains(bytes)).ok_or_else(|| "give a size such as 512M, 16G or 2T".to_owned())
}

/// Parses a number of bytes, with K, M, G, T or P for powers of 1024; `None` if it is invalid.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        "T" => Some(40),
        "P" => Some(50),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift))
}
