//! What is known of a container's usage, and which samples are taken.

use crate::profile::MemorySamples;
use crate::resource::Resource;
use crate::usage::buckets::{CPU, MEMORY};
use crate::usage::decay::{DAY, FARTHEST, Moment, SECOND, to_f64};
use crate::usage::histogram::{Histogram, Refused};
use crate::usage::model::{Model, Scan, is_amount};
use crate::usage::window::{NEVER, Window, Windows};

/// A sample may be this far ahead of the clock, in nanoseconds: clocks differ a little.
pub const AHEAD: i64 = 600 * SECOND;

/// What a kill for memory adds at least to what was used.
const OOM_LEAST: f64 = 104_857_600.0;
/// What a kill for memory multiplies what was used with, where that is more.
const OOM_RATIO: f64 = 1.2;

/// What a container used at one time. A value that is absent was not measured; it is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// In cores.
    pub cpu: Option<f64>,
    /// The working set in bytes.
    pub memory: Option<f64>,
    /// The container's original CPU request in cores.
    pub cpu_request: Option<f64>,
}

/// A container that was killed, or a pod that was evicted, because memory ran out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oom {
    /// When, in nanoseconds since 1970.
    pub nanos: i64,
    /// The memory request in force then, in bytes; 0 without one.
    pub request: f64,
}

/// Why a sample was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is more than 10 minutes ahead of the clock.
    Future,
    /// It is negative, not a finite number, or more than anything can have, or its time is nonsense.
    Invalid,
    /// There was one of that time.
    Duplicate,
    /// It is earlier than the container's last, or so old that it weighs nothing.
    Old,
}

/// How many samples were not taken, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// [`Reason::Future`]
    pub future: u64,
    /// [`Reason::Invalid`]
    pub invalid: u64,
    /// [`Reason::Duplicate`]
    pub duplicate: u64,
    /// [`Reason::Old`]
    pub old: u64,
}

impl Dropped {
    /// Counts one more.
    pub fn count(&mut self, reason: Reason) {
        match reason {
            Reason::Future => self.future += 1,
            Reason::Invalid => self.invalid += 1,
            Reason::Duplicate => self.duplicate += 1,
            Reason::Old => self.old += 1,
        }
    }
}

/// What must be remembered of one container of one pod between its samples. Several of them can feed one
/// [`Aggregate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    last_cpu: i64,
    last_memory: i64,
    last_oom: i64,
    windows: Windows,
}

impl Default for Track {
    fn default() -> Self {
        Self { last_cpu: NEVER, last_memory: NEVER, last_oom: NEVER, windows: Windows::UNOPENED }
    }
}

impl Track {
    /// For a container whose aggregate was loaded: what is not younger than the aggregate's last sample and
    /// last kill is in it already.
    pub fn resumed(aggregate: &Aggregate) -> Self {
        let last = aggregate.last.unwrap_or(NEVER);
        Self {
            last_cpu: last,
            last_memory: last,
            last_oom: aggregate.last_oom.unwrap_or(NEVER),
            windows: Windows::UNOPENED,
        }
    }

    /// Takes up the peaks of a text that [`Self::peaks`] made.
    ///
    /// # Errors
    /// It is none; nothing has changed.
    pub fn resume_peaks(&mut self, text: &str) -> Result<(), String> {
        self.windows = Windows::from_text(text)?;
        Ok(())
    }

    /// The memory peaks of the last windows as text; `None` before the first memory sample.
    pub fn peaks(&self) -> Option<String> {
        self.windows.to_text()
    }

    /// Forgets the peaks, where they have no counterpart in the histogram any more: the samples of memory are
    /// of another kind from now on, or go elsewhere.
    pub fn forget_peaks(&mut self) {
        self.windows = Windows::UNOPENED;
    }
}

/// The usage of a container, in all pods that count as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregate {
    pub(super) cpu: Histogram,
    pub(super) memory: Histogram,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    pub(super) last_oom: Option<i64>,
    pub(super) samples: u64,
}

impl Aggregate {
    /// The histogram of a resource; none for what is not measured.
    pub fn histogram(&self, resource: Resource) -> Option<&Histogram> {
        match resource {
            Resource::Cpu => Some(&self.cpu),
            Resource::Memory => Some(&self.memory),
            Resource::EphemeralStorage => None,
        }
    }

    /// How often usage was taken; CPU and memory of one time are one.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Time of the first sample, in nanoseconds since 1970.
    pub fn first_sample(&self) -> Option<i64> {
        self.first
    }

    /// Time of the last sample, in nanoseconds since 1970.
    pub fn last_sample(&self) -> Option<i64> {
        self.last
    }

    /// Time of the last sample or kill, whichever is later, in nanoseconds since 1970.
    pub fn last_time(&self) -> Option<i64> {
        self.last.max(self.last_oom)
    }

    /// Lets another model hold from now on.
    pub fn change_model(&mut self, old: &Model, new: &Model) {
        let Some(last) = self.last_time() else { return };
        self.cpu.change_half_life(old.cpu.half_life, new.cpu.half_life, last);
        self.memory.change_half_life(old.memory.half_life, new.memory.half_life, last);
    }

    /// The bytes that it takes, in itself and on the heap.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() - 2 * size_of::<Histogram>() + self.cpu.bytes() + self.memory.bytes()
    }

    /// Fetches what [`Self::observe`] will need from memory. Where there are many containers, most of the time
    /// goes into waiting for memory; call this for some tens of them, and then `observe` for the same, and they wait
    /// together. The answer has no meaning.
    pub fn touch(&self, usage: &Usage) -> f64 {
        let cpu = usage.cpu.map_or(0.0, |cores| self.cpu.touch(CPU.find(cores)));
        let memory = usage.memory.map_or(0.0, |bytes| self.memory.touch(MEMORY.find(bytes)));
        cpu + memory
    }

    /// The same for [`Self::estimate`].
    pub fn touch_all(&self) -> f64 {
        self.cpu.touch_upper() + self.memory.touch_upper()
    }

    /// Takes what a container used at the time of a scan. The answer is whether anything was taken; what was
    /// not is counted, once for each reason. `now` is the clock in nanoseconds since 1970, if one counts.
    pub fn observe(
        &mut self,
        track: &mut Track,
        model: &Model,
        scan: &Scan,
        usage: Usage,
        now: Option<i64>,
        dropped: &mut Dropped,
    ) -> bool {
        if usage.cpu.is_none() && usage.memory.is_none() {
            return false;
        }
        if let Err(reason) = check_time(scan.nanos, now) {
            dropped.count(reason);
            return false;
        }
        // A source may tell of CPU and memory one after the other.
        let is_first = scan.nanos > track.last_cpu.max(track.last_memory);
        let cpu = usage.cpu.map(|cores| {
            let weight = model.weight_of_cpu(usage.cpu_request);
            self.observe_cpu(track, scan, cores, weight)
        });
        let memory = usage.memory.map(|bytes| self.observe_memory(track, model, scan, bytes));
        let reasons = [cpu, memory].map(|result| result.and_then(Result::err));
        if let Some(reason) = reasons[0] {
            dropped.count(reason);
        }
        if let Some(reason) = reasons[1].filter(|reason| reasons[0] != Some(*reason)) {
            dropped.count(reason);
        }
        let taken = cpu.is_some_and(|result| result.is_ok()) || memory.is_some_and(|result| result.is_ok());
        if taken {
            self.samples += u64::from(is_first);
            self.first = Some(self.first.map_or(scan.nanos, |first| first.min(scan.nanos)));
            self.last = Some(self.last.map_or(scan.nanos, |last| last.max(scan.nanos)));
        }
        taken
    }

    fn observe_cpu(&mut self, track: &mut Track, scan: &Scan, cores: f64, weight: f64) -> Result<(), Reason> {
        check_value(cores)?;
        check_order(scan.nanos, track.last_cpu)?;
        self.cpu.add(&CPU, cores, weight, scan.cpu).map_err(reason)?;
        track.last_cpu = scan.nanos;
        Ok(())
    }

    fn observe_memory(
        &mut self,
        track: &mut Track,
        model: &Model,
        scan: &Scan,
        bytes: f64,
    ) -> Result<(), Reason> {
        check_value(bytes)?;
        check_order(scan.nanos, track.last_memory)?;
        track.windows.with(scan.nanos, |window| {
            let above = window.top().is_none_or(|top| bytes > top);
            match model.memory_samples {
                MemorySamples::PerScan => self.memory.add(&MEMORY, bytes, 1.0, scan.memory),
                MemorySamples::PeakPerInterval if above => self.replace_peak(model, window, bytes),
                MemorySamples::PeakPerInterval => Ok(()),
            }
            .map_err(reason)?;
            if above {
                window.usage = bytes;
            }
            Ok(())
        })?;
        track.last_memory = scan.nanos;
        Ok(())
    }

    /// Takes a kill for memory as a sample above what was used. The answer is whether it was new. It is
    /// taken also where later samples have come before it; a second kill within 24 hours counts only if its
    /// figure is higher, in place of the first.
    pub fn observe_oom(
        &mut self,
        track: &mut Track,
        model: &Model,
        oom: Oom,
        now: Option<i64>,
        dropped: &mut Dropped,
    ) -> bool {
        let result = check_time(oom.nanos, now).and_then(|()| self.take_oom(track, model, oom));
        if let Err(reason) = result {
            dropped.count(reason);
        }
        result.is_ok()
    }

    fn take_oom(&mut self, track: &mut Track, model: &Model, oom: Oom) -> Result<(), Reason> {
        // The statuses show a kill until the next one.
        if oom.nanos <= track.last_oom {
            return Err(Reason::Duplicate);
        }
        let request = if oom.request.is_finite() { oom.request.max(0.0) } else { 0.0 };
        track.windows.with(oom.nanos, |window| {
            let used = request.max(window.usage);
            let needed = (used + OOM_LEAST).max(used * OOM_RATIO).min(f64::MAX);
            if needed <= window.oom {
                return Ok(());
            }
            match model.memory_samples {
                MemorySamples::PerScan => self.replace_kill(model, window, needed, oom.nanos),
                MemorySamples::PeakPerInterval => self.replace_peak(model, window, needed),
            }
            .map_err(reason)?;
            (window.oom, window.oom_at) = (needed, oom.nanos);
            Ok(())
        })?;
        track.last_oom = oom.nanos;
        self.last_oom = Some(self.last_oom.map_or(oom.nanos, |last| last.max(oom.nanos)));
        Ok(())
    }

    /// The window's one sample, at its end, becomes `bytes`.
    fn replace_peak(&mut self, model: &Model, window: &Window, bytes: f64) -> Result<(), Refused> {
        let end = Moment::new(window.end, model.memory.half_life);
        if let Some(top) = window.top() {
            // A histogram that was forgotten since does not have it any more.
            let _ = self.memory.subtract(&MEMORY, top, 1.0, end);
        }
        self.memory.add(&MEMORY, bytes, 1.0, end)
    }

    /// The window's one kill becomes `bytes`. It weighs as much as a day's scans: it would not be seen
    /// among them otherwise.
    fn replace_kill(
        &mut self,
        model: &Model,
        window: &Window,
        bytes: f64,
        nanos: i64,
    ) -> Result<(), Refused> {
        let weight = to_f64(DAY) / to_f64(model.scan_interval.max(1));
        let half_life = model.memory.half_life;
        self.memory.add(&MEMORY, bytes, weight, Moment::new(nanos, half_life))?;
        if window.oom >= 0.0 {
            // An older one may weigh nothing any more.
            let _ = self.memory.subtract(&MEMORY, window.oom, weight, Moment::new(window.oom_at, half_life));
        }
        Ok(())
    }
}

fn check_time(nanos: i64, now: Option<i64>) -> Result<(), Reason> {
    match now {
        Some(now) if nanos > now.saturating_add(AHEAD) => Err(Reason::Future),
        _ if nanos.unsigned_abs() >= FARTHEST.unsigned_abs() => Err(Reason::Invalid),
        _ => Ok(()),
    }
}

fn check_value(value: f64) -> Result<(), Reason> {
    if is_amount(value) { Ok(()) } else { Err(Reason::Invalid) }
}

fn check_order(nanos: i64, last: i64) -> Result<(), Reason> {
    match nanos.cmp(&last) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Equal => Err(Reason::Duplicate),
        std::cmp::Ordering::Less => Err(Reason::Old),
    }
}

fn reason(refused: Refused) -> Reason {
    match refused {
        Refused::TooOld => Reason::Old,
        Refused::Invalid => Reason::Invalid,
    }
}
