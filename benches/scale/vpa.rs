//! The same samples for our histograms and for those of `benches/vpa`.

use std::hint::black_box;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use plimsoll_core::usage::buckets::CPU;
use plimsoll_core::usage::{EPSILON, HalfLife, Histogram, Moment, SECOND};

use crate::samples::{Numbers, Traces};
use crate::table::{float, rows, say};
use crate::work::{median, resident, timed};

const MINUTE: i64 = 60 * SECOND;
/// 2024-01-01T00:00:00Z.
const START: i64 = 1_704_067_200 * SECOND;
/// So many scans at the end are measured.
const MEASURED: i64 = 100;
/// So many histograms wait for memory together.
const TOGETHER: usize = 64;
const WEIGHT: f64 = 1.0;
const SHARES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// The other program. Dropping it closes its input, at which it ends.
struct Other {
    // First, so that it is dropped first.
    requests: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    child: Child,
}

impl Other {
    fn start(program: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}; `make bench-histogram` builds it", program.display()))?;
        let requests = BufWriter::with_capacity(1 << 20, child.stdin.take().context("no pipe")?);
        let answers = BufReader::with_capacity(1 << 20, child.stdout.take().context("no pipe")?);
        Ok(Self { requests, answers, child })
    }

    fn eight(&mut self) -> anyhow::Result<[u8; 8]> {
        let mut bytes = [0; 8];
        self.answers.read_exact(&mut bytes).context("the program of benches/vpa ended; see above why")?;
        Ok(bytes)
    }

    /// Makes histograms; the answer is the bytes of all.
    fn make(&mut self, count: usize) -> anyhow::Result<f64> {
        self.requests.write_all(b"N")?;
        self.requests.write_all(&u32::try_from(count)?.to_le_bytes())?;
        self.requests.flush()?;
        Ok(float(usize::try_from(u64::from_le_bytes(self.eight()?))?))
    }

    fn time(&mut self) -> anyhow::Result<Duration> {
        Ok(Duration::from_nanos(u64::try_from(i64::from_le_bytes(self.eight()?))?))
    }

    /// One sample for each histogram.
    fn add(&mut self, nanos: i64, values: &[f64]) -> anyhow::Result<Duration> {
        self.requests.write_all(b"A")?;
        self.requests.write_all(&nanos.to_le_bytes())?;
        self.requests.write_all(&WEIGHT.to_le_bytes())?;
        for value in values {
            self.requests.write_all(&value.to_le_bytes())?;
        }
        self.requests.flush()?;
        self.time()
    }

    fn percentiles(&mut self, share: f64, answers: &mut [f64]) -> anyhow::Result<Duration> {
        self.requests.write_all(b"P")?;
        self.requests.write_all(&share.to_le_bytes())?;
        self.requests.flush()?;
        let time = self.time()?;
        for answer in answers {
            *answer = f64::from_le_bytes(self.eight()?);
        }
        Ok(time)
    }

    fn end(self) -> anyhow::Result<()> {
        let Self { requests, mut child, .. } = self;
        drop(requests);
        let status = child.wait()?;
        anyhow::ensure!(status.success(), "the program of benches/vpa left with {status}");
        Ok(())
    }
}

/// What was measured, ours and theirs.
#[derive(Default)]
struct Times {
    adds: [Vec<Duration>; 2],
    percentiles: [Vec<Duration>; 2],
    compared: usize,
    different: usize,
}

pub(crate) fn compare(program: &Path, traces: &Traces, count: usize, scans: i64) -> anyhow::Result<()> {
    let mut numbers = Numbers(1);
    let ways: Vec<_> = (0..count).map(|_| traces.path(&mut numbers)).collect();
    let (mut values, mut ours, mut theirs) = (vec![0.0; count], vec![0.0; count], vec![0.0; count]);
    let mut other = Other::start(program)?;
    let bytes_theirs = other.make(count)? / float(count);
    let before = resident()?;
    let mut all = vec![Histogram::new(); count];
    let mut times = Times::default();
    for scan in 0..scans {
        let row = usize::try_from(scan)?;
        for (value, way) in values.iter_mut().zip(&ways) {
            *value = traces.cpu(way, row);
        }
        let nanos = START + scan * MINUTE;
        let (our_add, ()) = timed(|| {
            let moment = Moment::new(nanos, HalfLife::DAY);
            let mut found = [0; TOGETHER];
            for (some, values) in all.chunks_mut(TOGETHER).zip(values.chunks(TOGETHER)) {
                for (bucket, value) in found.iter_mut().zip(values) {
                    *bucket = CPU.find(*value);
                }
                black_box(some.iter().zip(&found).map(|(h, bucket)| h.touch(*bucket)).sum::<f64>());
                for (histogram, bucket) in some.iter_mut().zip(&found) {
                    let _ = black_box(histogram.add_to(*bucket, WEIGHT, moment));
                }
            }
        });
        let their_add = other.add(nanos, &values)?;
        if scan < scans - MEASURED {
            continue;
        }
        times.adds[0].push(our_add);
        times.adds[1].push(their_add);
        let share = SHARES.get(row % SHARES.len()).copied().unwrap_or(0.5);
        let (our_answers, ()) = timed(|| {
            for (answers, some) in ours.chunks_mut(TOGETHER).zip(all.chunks(TOGETHER)) {
                black_box(some.iter().map(Histogram::touch_upper).sum::<f64>());
                for (answer, histogram) in answers.iter_mut().zip(some) {
                    *answer = histogram.percentile(&CPU, share, EPSILON).unwrap_or(0.0);
                }
            }
        });
        times.percentiles[0].push(our_answers);
        times.percentiles[1].push(other.percentiles(share, &mut theirs)?);
        times.compared += count;
        times.different += ours.iter().zip(&theirs).filter(|(a, b)| (*a - *b).abs() > **b * 1e-9).count();
    }
    other.end()?;
    let resident_ours = (resident()? - before) / float(count);
    let bytes_ours = float(all.iter().map(Histogram::bytes).sum()) / float(count);
    let buckets = float(all.iter().map(|histogram| histogram.weights().count()).sum()) / float(count);
    report(&times, count, [bytes_ours, resident_ours, bytes_theirs]);
    say(&format!(
        "\n{count} histograms, {scans} scans, {buckets:.1} buckets in use each; {} answers compared, {} differ.\n",
        times.compared, times.different
    ));
    Ok(())
}

fn report(times: &Times, count: usize, [bytes, resident, theirs]: [f64; 3]) {
    let each = |times: &[Duration]| median(times).as_secs_f64() * 1e9 / float(count);
    let row = |what: &str, ours: f64, theirs: f64, goal: &str| {
        [
            what.into(),
            format!("{ours:.0}"),
            format!("{theirs:.0}"),
            format!("{:.1} x", theirs / ours),
            goal.into(),
        ]
    };
    let [ours_add, theirs_add] = [each(&times.adds[0]), each(&times.adds[1])];
    let [ours_answer, theirs_answer] = [each(&times.percentiles[0]), each(&times.percentiles[1])];
    rows(&[
        ["", "plimsoll", "VPA", "ratio", "goal"].map(Into::into),
        row("ns an add", ours_add, theirs_add, "8 x"),
        row("ns a percentile", ours_answer, theirs_answer, "5 x"),
        row("bytes a histogram", bytes, theirs, "5 x"),
        row("resident bytes a histogram", resident, theirs, ""),
    ]);
}
