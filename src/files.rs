//! Opening files that somebody else puts in place.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a regular file for reading, through symbolic links.
///
/// Whoever looks at a file again and again must not be stopped by what took its place: a named pipe without a writer
/// would keep the thread for ever.
///
/// # Errors
/// Those of the system, and anything that is not a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Asked first, since opening a device may do something. What is there may change before it is opened, hence
        // the flag, by which opening a pipe does not wait, and the second question.
        check(&path.metadata()?)?;
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file, see [`open_regular`].
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open_regular(path)?, &mut bytes)?;
    Ok(bytes)
}

fn check(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let what = if metadata.is_dir() { "a directory" } else { "a pipe, socket or device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("is {what}, not a regular file")))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pipe_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        symlink("file", path("link")).unwrap();
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        symlink("pipe", path("link-to-pipe")).unwrap();
        for (rule, name, expected) in [
            ("a file", "file", Ok("text")),
            ("a mounted ConfigMap is made of links", "link", Ok("text")),
            ("a pipe", "pipe", Err("is a pipe, socket or device, not a regular file")),
            ("a link to one", "link-to-pipe", Err("is a pipe, socket or device, not a regular file")),
            ("a directory", ".", Err("is a directory, not a regular file")),
        ] {
            let read = read_regular(&path(name)).map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected.map(str::as_bytes), "{rule}");
        }
        assert_eq!(read_regular(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
