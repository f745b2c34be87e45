// The other door of the fake libnccl.so.2: how a test commands it and asks what it saw.
//
// Ranks are threads of one process or processes of one host: data goes through shared memory that
// the unique id names. The fake behaves as NCCL may behave at its worst. A communicator is there
// only when all ranks have come, and then late. A call may go on in the background and reach its
// stream late (ncclInProgress): who does not ask for that puts the next kernel before it. An
// operation runs when all ranks' streams have reached it. It waits for a rank that does not come,
// or one that has died, until the communicator is aborted. So does one that has failed. Calls that
// differ between ranks, which the real one answers with rubbish or silence, are an asynchronous
// error here on every rank.
//
// What nobody may do to NCCL is a complaint: printed on stderr, kept for fake_nccl_complaints(),
// and answered with an error.
//
// Settings, by fake_nccl_set or by the environment (FAKE_NCCL_VERSION=21700); read at the first
// call and by fake_nccl_reset:
//   version     22803  what ncclGetVersion says
//   seed        1      of all that is random
//   delay_us    200    the longest time that anything is late
//   background  50     of 100 calls so many go on in the background
//   memory      0      whether a communicator has memory on the device, which is freed with it
//   linger      0      whether ncclCommDestroy waits until this is 0 again
//   hold_abort  0      ncclCommAbort does not return for as long as this is not 0
// FAKE_NCCL_FAIL=symbol:rank:nth:result,... is fake_nccl_fail by the environment.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void fake_nccl_set(const char* name, long value);
// Back to the settings of the environment; no failures and complaints.
void fake_nccl_reset(void);

// The nth call from now (1 is the next) of a function of NCCL that `rank` makes returns `result`
// and does nothing; -1: any rank. Two symbols mean what happens later: "init", when a communicator
// comes about, and "operation", when one runs on its stream; their results are asynchronous errors.
// A result below 0: the process gets that signal, -9 is SIGKILL.
void fake_nccl_fail(const char* symbol, int rank, int nth, int result);

// Communicators that have neither been destroyed nor aborted.
long fake_nccl_live(void);
// How often a function has been called since fake_nccl_reset().
long fake_nccl_calls(const char* symbol);
// What went wrong since fake_nccl_reset(), a line each; returns how many lines there are.
int fake_nccl_complaints(char* text, size_t bytes);
void fake_nccl_forgive(void);

#ifdef __cplusplus
}
#endif
