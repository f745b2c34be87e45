/* START HERE. Everything that may be asked of libhvdlite.so: a C interface, so that any binding of any Python, and any
 * framework's compiler, can call it. Nothing else of the library is visible from outside.
 *
 * Conventions. Functions that can fail return an hvdlite_code; the sentence, and the rank to blame, are then in
 * hvdlite_last_error() and hvdlite_last_error_peer() of the calling thread. Tensors are borrowed until the operation's
 * handle is done. Numbers never change their meaning; new ones are appended.
 * Thread-safety: every function from any thread; init and shutdown exclude one another.
 * After fork(): the child has no job; every call but hvdlite_is_initialized fails there, and nothing is touched. */
#ifndef HVDLITE_API_HVDLITE_H_
#define HVDLITE_API_HVDLITE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HVDLITE_API __attribute__((visibility("default")))

typedef int32_t hvdlite_code;
enum {
  HVDLITE_OK = 0,
  HVDLITE_INVALID_ARGUMENT = 1,
  HVDLITE_NOT_INITIALIZED = 2,
  HVDLITE_MISMATCH = 3,
  HVDLITE_PEER_LOST = 4,
  HVDLITE_SHUT_DOWN = 5,
  HVDLITE_TIMEOUT = 6,
  HVDLITE_IO = 7,
  HVDLITE_UNSUPPORTED = 8,
  HVDLITE_INTERNAL = 9,
  HVDLITE_DUPLICATE_NAME = 10,
};

/* Kinds of operations. */
enum {
  HVDLITE_ALLREDUCE = 0,
  HVDLITE_ALLGATHER = 1,
  HVDLITE_BROADCAST = 2,
  HVDLITE_ALLTOALL = 3,
  HVDLITE_REDUCESCATTER = 4,
  HVDLITE_BARRIER = 5,
  HVDLITE_JOIN = 6,
  HVDLITE_ADD_PROCESS_SET = 7,
  HVDLITE_REMOVE_PROCESS_SET = 8,
};
/* "allreduce"; NULL: there is no such kind. */
HVDLITE_API const char* hvdlite_operation_name(int32_t kind);

/* What an operation of a kind gives each member of the process set. */
enum {
  HVDLITE_RESULT_NONE = 0,      /* no tensor */
  HVDLITE_RESULT_SAME = 1,      /* a tensor of the input's shape */
  HVDLITE_RESULT_GATHERED = 2,  /* the members' rows; the library allocates the result */
  HVDLITE_RESULT_EXCHANGED = 3, /* rows from each member; the library allocates the result */
  HVDLITE_RESULT_SHARED = 4,    /* this member's share of the rows */
};
HVDLITE_API int32_t hvdlite_operation_result(int32_t kind); /* NONE if there is no such kind */

/* Reductions. */
enum {
  HVDLITE_AVERAGE = 0,
  HVDLITE_SUM = 1,
  HVDLITE_ADASUM = 2,
  HVDLITE_MIN = 3,
  HVDLITE_MAX = 4,
  HVDLITE_PRODUCT = 5,
};

/* Element types. */
enum {
  HVDLITE_BOOL = 0,
  HVDLITE_UINT8 = 1,
  HVDLITE_INT8 = 2,
  HVDLITE_UINT16 = 3,
  HVDLITE_INT16 = 4,
  HVDLITE_UINT32 = 5,
  HVDLITE_INT32 = 6,
  HVDLITE_UINT64 = 7,
  HVDLITE_INT64 = 8,
  HVDLITE_FLOAT16 = 9,
  HVDLITE_BFLOAT16 = 10,
  HVDLITE_FLOAT32 = 11,
  HVDLITE_FLOAT64 = 12,
};
HVDLITE_API const char* hvdlite_dtype_name(int32_t dtype); /* as numpy's; NULL: there is no such type */
HVDLITE_API int64_t hvdlite_dtype_size(int32_t dtype);     /* bytes; 0: there is no such type */

HVDLITE_API const char* hvdlite_last_error(void);
HVDLITE_API int32_t hvdlite_last_error_peer(void); /* global rank, or -1 */
HVDLITE_API const char* hvdlite_simd(void);        /* the instruction set the kernels use */
HVDLITE_API const char* hvdlite_gpu_kernels(
    void); /* what compiled the kernels for GPUs, "nvcc 13.0"; "": this build has none */
/* The CUDA driver, which is initialised by this; 13000 for CUDA 13.0. HVDLITE_UNSUPPORTED: why it cannot be used. */
HVDLITE_API hvdlite_code hvdlite_find_cuda(const char* library, int32_t* version);
/* The NCCL that this process would take, which is loaded by this: `wanted` if it is not empty; or that of NVIDIA's wheel, in one
 * of the folders `wheel` with ':' between them, or the system's. 22803 for 2.28.3. HVDLITE_UNSUPPORTED: why there is none. */
HVDLITE_API hvdlite_code hvdlite_find_nccl(const char* wanted, const char* wheel, int32_t* version);

/* ---- Life ---------------------------------------------------------------------------------------------------- */

/* The MPI of this process, for who has one. */
typedef struct {
  const char* absent; /* a sentence why there is none; then the rest is ignored */
  const char* module; /* a loaded library that depends on the MPI: its functions are found through it */
  const char* const* names; /* of hvdlite_mpi_handle_name; and their values */
  const int64_t* handles;
  int32_t handle_count;
  int64_t in_place; /* MPI_IN_PLACE as an address */
  int64_t communicator; /* whose ranks are those of the job */
  const char* library; /* "Open MPI v5.0.11" */
} hvdlite_mpi;
/* Which handles are wanted, without "MPI_": "FLOAT", "SUM" ... NULL after the last. */
HVDLITE_API const char* hvdlite_mpi_handle_name(int32_t i);

typedef struct {
  int32_t rank;
  int32_t size;
  const char* store;        /* "host:port" of the job's store; NULL when size is 1 */
  const char*
      store_prefix; /* this job's keys in the store begin with it; may be empty. Each init() gets keys of its own below it */
  const char* secret; /* 64 hexadecimal digits; NULL when size is 1 */
  const char* const* knobs; /* field, value, field, value, ... */
  int32_t knob_count; /* pairs */
  const int32_t* set_sizes; /* process sets that exist from the start: their sizes, and their ranks one after another */
  const int32_t* set_ranks;
  int32_t set_count;
  const hvdlite_mpi* mpi; /* NULL: nobody has asked about MPI */
  const char* release; /* of hvdlite: all ranks have to run the same; NULL: none is told */
} hvdlite_init_options;

/* Meets the other ranks. Blocks until all are there, or the start timeout has passed. */
HVDLITE_API hvdlite_code hvdlite_init(const hvdlite_init_options* options);
/* Leaves in good order. A second call does nothing. What it returns unless HVDLITE_OK is why the job had failed, or failed
 * meanwhile: this rank has left it in any case. */
HVDLITE_API hvdlite_code hvdlite_shutdown(double timeout_seconds);
/* HVDLITE_OK while the job goes on, when it has ended in good order, and when there is none; else why it has failed. */
HVDLITE_API hvdlite_code hvdlite_health(void);
/* Ends the job on all ranks because this one has failed; `why` is what they will read. */
HVDLITE_API void hvdlite_abort(const char* why);
HVDLITE_API int32_t hvdlite_is_initialized(void);

typedef struct {
  int32_t rank, size, local_rank, local_size, cross_rank, cross_size;
  int32_t is_homogeneous;
} hvdlite_place;
HVDLITE_API hvdlite_code hvdlite_where(hvdlite_place* place);

/* Why the process set communicates as it does: up to `capacity` bytes, closed by 0. Returns the length of all of it. */
HVDLITE_API int64_t hvdlite_explain(int32_t process_set, char* text, int64_t capacity);
/* Whether tensors of the job go over MPI. */
HVDLITE_API int32_t hvdlite_uses_mpi(void);

/* ---- Operations ---------------------------------------------------------------------------------------------- */

typedef struct {
  void* data;
  int32_t dtype;
  int32_t ndim;
  const int64_t* shape;
  int32_t device_kind; /* 0 host, 1 CUDA */
  int32_t device_index;
} hvdlite_tensor;

typedef struct {
  int32_t kind;
  int32_t op; /* reduction */
  int32_t process_set;
  const char* name; /* NULL: "<kind>.noname.<n>", n counting such calls of this kind in this set */
  int64_t root; /* broadcast: global rank. remove_process_set: the id */
  double prescale;
  double postscale;
  const int64_t* splits; /* alltoall: rows for each member, or NULL for equal parts. add_process_set: the ranks */
  int32_t split_count;
  hvdlite_tensor input;
  hvdlite_tensor output; /* data == NULL: allocated by the library, see hvdlite_result */
  void* stream; /* tensors on a GPU: the CUDA stream (0 legacy, 1 and 2 as in CUDA) whose work so far they come from */
  int32_t
      patient; /* 1: the caller computes now and waits for it before long. It may begin then, unless a processor is free */
} hvdlite_operation;

HVDLITE_API hvdlite_code hvdlite_submit(const hvdlite_operation* operation, int64_t* handle);
/* Submits, and waits for at most about `slice_seconds`. *handle is -1 if all is over and there is nothing to fetch: the
 * return value then says how it ended. Otherwise go on with the handle: wait for it, get its result, release it. */
HVDLITE_API hvdlite_code hvdlite_run(const hvdlite_operation* operation, double slice_seconds, int64_t* handle);
/* All of them or none; they become ready, travel and fail together. `group` names the group; NULL: as for name. */
HVDLITE_API hvdlite_code hvdlite_submit_group(const hvdlite_operation* operations, int32_t count, const char* group,
                                              int64_t* handles);

/* Works or waits until the operation is done, or about `slice_seconds` have passed, or a signal has arrived.
 * *done says which. An unknown handle is HVDLITE_INVALID_ARGUMENT. */
HVDLITE_API hvdlite_code hvdlite_wait(int64_t handle, double slice_seconds, int32_t* done);
/* Whether results are there. */
HVDLITE_API hvdlite_code hvdlite_poll(int64_t handle, int32_t* done);
/* hvdlite_wait, and once the operation is done hvdlite_release: the return value is then how it ended. For operations whose
 * result lies in their output. With a slice of 0 it does not wait. An unknown handle counts as done. *done is 2 for an
 * operation on a GPU that has ended well: it is not released, see below. */
HVDLITE_API hvdlite_code hvdlite_end(int64_t handle, double slice_seconds, int32_t* done);

typedef struct {
  hvdlite_tensor output; /* data == NULL unless the library allocated the result. shape lives until hvdlite_release */
  const int64_t* received_splits; /* alltoall */
  int32_t split_count;
  int32_t on_gpu; /* results are there later: see hvdlite_follow */
  int64_t number; /* join: the last rank. add_process_set: the id. remove_process_set: 1 if it existed */
} hvdlite_result;
/* How a done operation ended: the return value is its status. What *result points to lives until hvdlite_release. */
HVDLITE_API hvdlite_code hvdlite_get_result(int64_t handle, hvdlite_result* result);

/* An operation on tensors on a GPU is done, for hvdlite_wait and the functions that wait, once everything that it takes has
 * been put on hvdlite's own stream of the device. Its results, and the right to write into its input, come later. Who has a
 * stream lets that wait, and nobody else: */
HVDLITE_API hvdlite_code hvdlite_follow(int64_t handle, void* stream);
/* The same for a result that the library has allocated and that belongs into memory of another allocator's: copied there on
 * the stream. */
HVDLITE_API hvdlite_code hvdlite_copy_result(int64_t handle, void* to, void* stream);
/* Who has none waits for the device: at most about `slice_seconds`. */
HVDLITE_API hvdlite_code hvdlite_land(int64_t handle, double slice_seconds, int32_t* landed);
/* A result that the library has allocated on a GPU: what hvdlite_release gives as *storage if its output says so. */
typedef struct hvdlite_device_memory hvdlite_device_memory;
/* As hvdlite_follow. The memory is given back in the order of the stream that was named last. */
HVDLITE_API hvdlite_code hvdlite_follow_memory(hvdlite_device_memory* memory, void* stream);
HVDLITE_API void hvdlite_free_memory(hvdlite_device_memory* memory);
/* The device_index of memory on a GPU, for who is told its address only. */
HVDLITE_API hvdlite_code hvdlite_gpu_of(const void* memory, int32_t* index);
/* HVDLITE_OK if tensors on GPUs can be handed over as they are. */
HVDLITE_API hvdlite_code hvdlite_can_use_gpus(void);

/* Gives up the handle. *storage, unless `storage` is NULL, gets what the result lies in, to be freed with free(), or on a
 * GPU with hvdlite_free_memory(). */
HVDLITE_API void hvdlite_release(int64_t handle, void** storage);
/* Gives up all handles, with the results that nobody has fetched: for a binding, before the next hvdlite_init. */
HVDLITE_API void hvdlite_release_all(void);

/* ---- Operations without a handle, for callers that cannot wait: the kernels of a framework's executor ------------ */

typedef struct {
  /* How the operation ended: called exactly once for each operation that was accepted (submit returned HVDLITE_OK),
   * perhaps before submit returns. `error` says what went wrong; `result` is NULL unless the code is HVDLITE_OK. Both,
   * and what they point to, live until it returns. Who calls: the library's own thread, or a thread of the program's that
   * is inside hvdlite_wait, _run, _shutdown or _abort; no lock is held. It may submit and abort; it must not block: no
   * hvdlite_wait, _run, _init or _shutdown, no lock of an interpreter. After a shutdown or a failure of the job whatever is
   * outstanding ends with that error; in a forked child nothing is called any more. */
  void (*done)(void* context, hvdlite_code code, const char* error, const hvdlite_result* result);
  /* Memory for a result whose shape the caller could not know (allgather, alltoall, reducescatter), which `output` tells;
   * NULL when there is none, which ends the job. Called at most once, before done(), and under the library's locks: it
   * must call nothing of this header. NULL: the library allocates, and frees when done() has returned. */
  void* (*allocate)(void* context, const hvdlite_tensor* output);
  void* context; /* given to both */
} hvdlite_completion;

/* As hvdlite_submit and hvdlite_submit_group (one completion for each member). If they fail, nobody is called. */
HVDLITE_API hvdlite_code hvdlite_submit_then(const hvdlite_operation* operation, const hvdlite_completion* completion);
HVDLITE_API hvdlite_code hvdlite_submit_group_then(const hvdlite_operation* operations, int32_t count,
                                                   const char* group, const hvdlite_completion* completions);

/* ---- Observation --------------------------------------------------------------------------------------------- */

/* Writes this rank's timeline to `path` from now on (rank 0, or all ranks if the knob timeline_ranks says so). */
HVDLITE_API hvdlite_code hvdlite_start_timeline(const char* path, int32_t mark_cycles);
HVDLITE_API hvdlite_code hvdlite_stop_timeline(void);
/* JSON: "metrics" (an object of counters) or "recent" (the last operations). Writes at most `capacity` bytes and a NUL;
 * returns the length of the whole text, 0 when there is no job. */
HVDLITE_API int64_t hvdlite_describe(const char* what, char* text, int64_t capacity);
/* When operations stall, the engine wants to know where the user's program is. 1: asked, answer now; 0: not asked within
 * `timeout_seconds`; -1: there is no job any more. For a thread of the binding's own. */
HVDLITE_API int32_t hvdlite_wait_question(double timeout_seconds);
HVDLITE_API void hvdlite_answer(const char* place);

/* ---- Process sets -------------------------------------------------------------------------------------------- */

/* Writes at most `capacity` ranks; returns how many the set has, 0 if there is no such set. */
HVDLITE_API int32_t hvdlite_process_set_ranks(int32_t process_set, int32_t* ranks, int32_t capacity);
HVDLITE_API int32_t hvdlite_process_set_ids(int32_t* ids, int32_t capacity);

#ifdef __cplusplus
}
#endif
#endif /* HVDLITE_API_HVDLITE_H_ */
