// The histogram of the Vertical Pod Autoscaler, for `benches/scale` to measure next to ours.
//
// It reads requests from standard input and answers on standard output, all numbers little-endian, so that both sides
// get the same samples and take turns in one run. Times are CPU time of the one thread that works: other processes on
// the machine hardly count.
//
//	N count(u32)                              make so many histograms           -> heap bytes of all (u64)
//	A nanos(i64) weight(f64) values(f64 each) add one sample to each            -> nanoseconds (i64)
//	P share(f64)                              ask each for a percentile         -> nanoseconds (i64), answers (f64 each)
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/util"
)

// CLOCK_THREAD_CPUTIME_ID of Linux.
const threadCPU = 3

// The half-life and the least weight that counts are those the autoscaler uses.
const (
	halfLife = 24 * time.Hour
	epsilon  = 0.001 * 0.1
)

type bench struct {
	in         *bufio.Reader
	out        *bufio.Writer
	options    util.HistogramOptions
	histograms []util.Histogram
	// One number for each histogram: values that come, answers that go.
	numbers []float64
}

func main() {
	// The thread's clock must be of the thread that works.
	runtime.LockOSThread()
	options, err := util.NewExponentialHistogramOptions(1000, 0.01, 1.05, epsilon)
	if err == nil {
		b := &bench{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: bufio.NewWriterSize(os.Stdout, 1<<20), options: options}
		err = b.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (b *bench) serve() error {
	for {
		kind, err := b.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind {
		case 'N':
			err = b.make()
		case 'A':
			err = b.add()
		case 'P':
			err = b.percentiles()
		default:
			err = fmt.Errorf("no such request: %q", kind)
		}
		if err != nil {
			return err
		}
		if err := b.out.Flush(); err != nil {
			return err
		}
	}
}

func (b *bench) read(to any) error { return binary.Read(b.in, binary.LittleEndian, to) }

func (b *bench) write(what any) error { return binary.Write(b.out, binary.LittleEndian, what) }

func (b *bench) make() error {
	var count uint32
	if err := b.read(&count); err != nil {
		return err
	}
	b.numbers = make([]float64, count)
	b.histograms = make([]util.Histogram, count)
	before := heap()
	for i := range b.histograms {
		b.histograms[i] = util.NewDecayingHistogram(b.options, halfLife)
	}
	return b.write(heap() - before)
}

func (b *bench) add() error {
	var head struct {
		Nanos  int64
		Weight float64
	}
	if err := b.read(&head); err != nil {
		return err
	}
	if err := b.read(b.numbers); err != nil {
		return err
	}
	at := time.Unix(0, head.Nanos).UTC()
	start := cpu()
	for i, histogram := range b.histograms {
		histogram.AddSample(b.numbers[i], head.Weight, at)
	}
	return b.write(cpu() - start)
}

func (b *bench) percentiles() error {
	var share float64
	if err := b.read(&share); err != nil {
		return err
	}
	start := cpu()
	for i, histogram := range b.histograms {
		b.numbers[i] = histogram.Percentile(share)
	}
	if err := b.write(cpu() - start); err != nil {
		return err
	}
	return b.write(b.numbers)
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// cpu is the CPU time of this thread in nanoseconds.
func cpu() int64 {
	var now syscall.Timespec
	// It cannot fail for a clock of one's own thread.
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}
