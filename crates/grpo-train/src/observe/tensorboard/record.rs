//! TFRecord framing: what an event file is made of.
//!
//! A record is `length: u64`, `masked CRC32C of the length: u32`, `data`, `masked CRC32C of the data: u32`, integers little-endian.
//!
//! # Source
//! TensorFlow, `lib/io/record_writer.h`.

/// Bytes before the data: its length and the checksum of the length.
const HEAD: usize = 12;
/// Bytes after the data: its checksum.
const TAIL: usize = 4;

/// Puts a frame round `data`.
pub fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(HEAD + data.len() + TAIL);
    record.extend(length);
    record.extend(masked(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked(data).to_le_bytes());
    record
}

/// The first record of `bytes`: its data and what follows it. `None` where no whole, undamaged record begins.
pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*check) != masked(length) {
        return None;
    }
    let (data, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (check, rest) = rest.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*check) == masked(data)).then_some((data, rest))
}

/// A CRC of data that holds CRCs is weak, so the format turns and shifts them.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_what_follows_it_stays() {
        let two = [framed(b"first"), framed(b"")].concat();
        let (first, rest) = split(&two).unwrap();
        assert_eq!(first, b"first");
        assert_eq!(split(rest).unwrap(), (&b""[..], &b""[..]));
    }

    #[test]
    fn a_torn_or_damaged_record_is_none() {
        let whole = framed(b"data");
        for cut in 0..whole.len() {
            assert!(split(&whole[..cut]).is_none(), "cut at {cut}");
        }
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 1;
            assert!(split(&damaged).is_none(), "flipped at {index}");
        }
    }

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        // CRC32C of 32 zeros is 8a9136aa (RFC 3720, B.4); masked by hand: (crc >> 15 | crc << 17) + a282ead8.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x0fd7_fffa);
    }
}
