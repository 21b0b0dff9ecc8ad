//! Opens a transcript, compressed or not, as a stream of its bytes.
//!
//! A zstd file comes from anywhere: what it declares is believed in nothing. Its window is bounded, and so is what may
//! come out of it; lines are bounded by whoever reads them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::limits::{MAX_ZSTD_EXPANSION, MAX_ZSTD_FREE_BYTES, MAX_ZSTD_WINDOW_BYTES};

/// Whether the name says that the file is compressed with zstd.
pub(super) fn is_zstd(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The bytes of the file, decompressed where its name says so.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let file = File::open(path)?;
    if !is_zstd(path) {
        return Ok(Box::new(file));
    }
    let room = MAX_ZSTD_FREE_BYTES.saturating_add(file.metadata()?.len().saturating_mul(MAX_ZSTD_EXPANSION));
    Ok(Box::new(ZstdReader::new(file, room)))
}

/// The content of all frames, one after the other.
pub(super) struct ZstdReader<R> {
    source: BufReader<R>,
    decoder: FrameDecoder,
    in_frame: bool,
    /// Bytes that may still come out.
    room: u64,
}

impl<R: Read> ZstdReader<R> {
    /// At most `room` bytes come out.
    pub(super) fn new(source: R, room: u64) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_ZSTD_WINDOW_BYTES);
        Self { source: BufReader::new(source), decoder, in_frame: false, room }
    }

    /// Goes to the next frame with content. `false`: there is none.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(&error)),
            }
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                self.in_frame = self.next_frame()?;
                if !self.in_frame {
                    return Ok(0);
                }
            }
            if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| invalid(&error))?;
            }
            let read = self.decoder.read(buffer)?;
            if read == 0 {
                self.in_frame = !self.decoder.is_finished();
                continue;
            }
            self.room = self.room.checked_sub(read as u64).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("expands to more than {MAX_ZSTD_EXPANSION} times its size"),
                )
            })?;
            return Ok(read);
        }
    }
}

fn invalid(error: &FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn frame(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>, room: u64) -> Result<Vec<u8>, (Vec<u8>, String)> {
        let mut content = Vec::new();
        match ZstdReader::new(io::Cursor::new(bytes), room).read_to_end(&mut content) {
            Ok(_) => Ok(content),
            Err(error) => Err((content, error.to_string())),
        }
    }

    #[test]
    fn frames_are_read_one_after_the_other() {
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        let long: Vec<u8> = (0..300_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        let bytes = [frame(b"one\n"), skippable.clone(), frame(b""), frame(&long), skippable].concat();
        assert_eq!(read(bytes, u64::MAX), Ok([b"one\n", long.as_slice()].concat()));
        assert_eq!(read(Vec::new(), u64::MAX), Ok(Vec::new()));
    }

    #[test]
    fn what_is_cut_or_no_frame_is_an_error() {
        let whole = frame(&b"some words, some words, some words\n".repeat(50));
        for cut in 1..whole.len() {
            assert!(read(whole[..cut].to_vec(), u64::MAX).is_err(), "{cut}");
        }
        assert!(read(b"{\"type\":\"session_meta\"}".to_vec(), u64::MAX).is_err());
        let (content, _) = read([frame(b"kept\n"), b"junk".to_vec()].concat(), u64::MAX).unwrap_err();
        assert_eq!(content, b"kept\n");
    }

    #[test]
    fn a_bomb_ends_at_its_bound() {
        let bomb = frame(&vec![b'x'; 8 << 20]);
        assert!(bomb.len() < 8_000, "{}", bomb.len());
        let (content, reason) = read(bomb, 1 << 20).unwrap_err();
        assert!(content.len() <= 1 << 20);
        assert!(reason.contains("expands to more than"), "{reason}");
    }

    #[test]
    fn a_declared_window_is_no_reason_to_allocate_it() {
        // Magic, no single segment, window descriptor of 2^41 bytes, one empty last raw block.
        let huge = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00];
        let (_, reason) = read(huge, u64::MAX).unwrap_err();
        assert!(reason.starts_with("zstd: "), "{reason}");
    }
}
