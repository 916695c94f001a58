//! The bytes of a file, whatever it is packed in.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of the number of a frame that holds no data.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// No line is longer: what comes without line ends is no table, and must not fill the memory.
const LONGEST_LINE: usize = 1 << 20;

/// Is told how many bytes of a file were read, of how many; packed ones, if it is packed.
pub type Told<'a> = &'a dyn Fn(u64, u64);

/// Something that can be read twice.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
}

/// A file while it is read.
struct Counted<'t> {
    file: File,
    done: u64,
    size: u64,
    told: Told<'t>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buf)?;
        self.done += u64::try_from(read).unwrap_or(0);
        (self.told)(self.done, self.size);
        Ok(read)
    }
}

impl Source {
    /// Opens a file, or standard input (`-`). What is no plain file is copied to a temporary one first.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::copied(io::stdin().lock());
        }
        let file = File::open(path)?;
        if file.metadata()?.is_file() { Ok(Self { file }) } else { Self::copied(file) }
    }

    fn copied(mut from: impl Read) -> io::Result<Self> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut from, &mut file)?;
        Ok(Self { file })
    }

    /// The text, from the beginning.
    pub(super) fn read<'t>(&mut self, told: Told<'t>) -> io::Result<impl Read + use<'t>> {
        self.file.seek(SeekFrom::Start(0))?;
        let size = self.file.metadata()?.len();
        unpacked(Counted { file: self.file.try_clone()?, done: 0, size, told })
    }
}

/// Text from what may be packed by gzip or zstd; its first bytes tell, not its name.
pub(super) fn unpacked<'a>(mut packed: impl Read + 'a) -> io::Result<LineLimit<Box<dyn Read + 'a>>> {
    let mut head = Vec::with_capacity(4);
    packed.by_ref().take(4).read_to_end(&mut head)?;
    let gzip = head.starts_with(GZIP);
    let zstd = head.starts_with(ZSTD) || head.ends_with(ZSTD_SKIPPABLE);
    let packed = BufReader::with_capacity(1 << 16, Cursor::new(head).chain(packed));
    Ok(LineLimit {
        inner: if gzip {
            Box::new(MultiGzDecoder::new(packed))
        } else if zstd {
            Box::new(Zstd { source: packed, decoder: FrameDecoder::new(), within_frame: false })
        } else {
            Box::new(packed)
        },
        length: 0,
    })
}

/// All frames of a zstd file.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    within_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Begins the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn check(&self) -> io::Result<()> {
        let stored = self.decoder.get_checksum_from_data();
        if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the zstd checksum does not match"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if buf.is_empty() || !(self.within_frame || self.begin()?) {
                return Ok(0);
            }
            self.within_frame = true;
            while self.decoder.can_collect() < buf.len() && !self.decoder.is_finished() {
                let missing = buf.len() - self.decoder.can_collect();
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBytes(missing))
                    .map_err(io::Error::other)?;
            }
            let read = self.decoder.read(buf)?;
            if read > 0 {
                return Ok(read);
            }
            self.check()?;
            self.within_frame = false;
        }
    }
}

/// Text without endless lines.
pub(super) struct LineLimit<R> {
    inner: R,
    /// Bytes since the last line end.
    length: usize,
}

impl<R: Read> Read for LineLimit<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        let bytes = buf.get(..read).unwrap_or_default();
        self.length = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => read - at - 1,
            None => self.length + read,
        };
        if self.length > LONGEST_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 1 MiB"));
        }
        Ok(read)
    }
}

/// What messages call a file: its path, or standard input for `-`.
pub fn origin(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn text(packed: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        unpacked(packed)?.read_to_string(&mut text).map(|_| text)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    #[test]
    fn every_wrapping_comes_off() {
        let skippable = [&[0x52, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9], &zstd(b"a\n")[..]].concat();
        for (rule, packed, expected) in [
            ("plain", b"a,b\n1,2\n".to_vec(), "a,b\n1,2\n"),
            ("empty", Vec::new(), ""),
            ("short", b"a".to_vec(), "a"),
            ("gzip", gzip(b"a,b\n"), "a,b\n"),
            ("gzip in two members", [gzip(b"a\n"), gzip(b"b\n")].concat(), "a\nb\n"),
            ("zstd", zstd(b"a,b\n"), "a,b\n"),
            ("zstd in two frames", [zstd(b"a\n"), zstd(b""), zstd(b"b\n")].concat(), "a\nb\n"),
            ("zstd after a frame without data", skippable, "a\n"),
        ] {
            assert_eq!(text(&packed).unwrap(), expected, "{rule}");
        }
    }

    #[test]
    fn broken_wrappings_are_errors() {
        let long = "1,2\n".repeat(10_000);
        let cut = |packed: Vec<u8>| packed[..packed.len() - 5].to_vec();
        let mut flipped = zstd(long.as_bytes());
        *flipped.last_mut().unwrap() ^= 1;
        for (rule, packed) in [
            ("gzip cut short", cut(gzip(long.as_bytes()))),
            ("zstd cut short", cut(zstd(long.as_bytes()))),
            ("zstd with a wrong checksum", flipped),
            ("zstd, and then something else", [zstd(b"a\n"), b"hello, world\n".to_vec()].concat()),
            ("only a head", ZSTD.to_vec()),
            ("a frame without data that is cut short", vec![0x52, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9]),
            ("an endless line", vec![b'a'; LONGEST_LINE + 2]),
            ("an endless line, packed", gzip(&vec![b'a'; 10 * LONGEST_LINE])),
        ] {
            assert!(text(&packed).is_err(), "{rule}");
        }
    }
}
