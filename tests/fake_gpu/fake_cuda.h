// The other door of the fake libcuda.so: how a test commands it and asks what it saw.
//
// The fake behaves as a driver may behave at its worst. A stream is a thread that runs what it is
// given late and at random moments. Memory is handed out full of rubbish. Streams wait for one
// another only where an event says so: the default stream, too, is a stream like others here, so
// nothing may lean on what it would wait for. Device memory is host memory that only streams may
// touch: the host gets SIGSEGV where the processor has memory protection keys (x86: pku). Under the
// thread sanitizer only the order that CUDA promises counts, not the fake's own locks: a missing
// wait is a data race.
//
// What nobody may do to a driver is a complaint: it is printed on stderr, kept for
// fake_cuda_complaints(), and answered with the driver's error. A device whose stream touches
// memory that is not there is broken from then on, as a real one.
//
// Settings, by fake_cuda_set or by the environment (FAKE_CUDA_DEVICES=3); read at the first call
// and by fake_cuda_reset:
//   devices    2      as many GPUs are there
//   version    13000  of the driver
//   seed       1      of all that is random
//   delay_us   200    the longest time that a stream sleeps before it does the next thing
//   memory_mb  4096   of each device
//   pools      1      whether the device has stream-ordered memory
//   protect    1      whether the host is kept off device memory
//   capability 90     compute capability, 10 * major + minor
//   free_waits 0      whether cuMemFree(Host) waits for the whole device, as a driver's does
// FAKE_CUDA_FAIL=symbol:nth:times:result,... is fake_cuda_fail by the environment.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Puts host work on a stream, as a kernel is put there: it runs on the stream's thread in the
// stream's order, and may wait there for long. Needs what a launch needs: a current context.
// Returns a CUresult. On a device that has broken meanwhile `drop` is called instead.
int fake_cuda_enqueue(void* stream, void (*work)(void*), void (*drop)(void*), void* argument);

void fake_cuda_set(const char* name, long value);
// Back to the settings of the environment; no failures, complaints, broken devices and held
// streams. Frees nothing.
void fake_cuda_reset(void);
// Lets held streams go, and waits until all streams have done what they were given, those that have
// been destroyed, too: between two tests, so that the second does not see the first one's memory
// freed.
void fake_cuda_settle(void);

// The nth call from now (1 is the next) of a function of the driver and `times` - 1 more return
// `result` and do nothing. `symbol` as in functions.def: "cuMemAlloc_v2". A result below 0: the
// process gets that signal, -9 is SIGKILL.
void fake_cuda_fail(const char* symbol, int nth, int times, int result);
// From now on the device does nothing and all calls about it return `result`, as after an illegal
// address (700).
void fake_cuda_break(int device, int result);
// A held stream starts nothing until it is let go.
void fake_cuda_hold(void* stream, int held);
// Whether this thread may touch device memory.
void fake_cuda_touch(int allowed);

// How many there are now of: "context" (retained), "stream", "event", "module", "memory", "pinned"
// (blocks).
long fake_cuda_live(const char* kind);
// How often a function has been called since fake_cuda_reset().
long fake_cuda_calls(const char* symbol);
// What went wrong since fake_cuda_reset(), a line each; returns how many lines there are.
int fake_cuda_complaints(char* text, size_t bytes);
// Forgets the complaints.
void fake_cuda_forgive(void);
// Whether `pointer` is in device memory that has not been freed, and on which device; -1 if not.
int fake_cuda_device_of(const void* pointer);

#ifdef __cplusplus
}
#endif
