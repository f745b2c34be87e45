/* START HERE: the C interface of libhvdlite.so, for bindings of any Python and for frameworks'
 * compilers. The library exports this and nothing else.
 *
 * Conventions. A function that can fail returns an hvdlite_code. The functions
 * hvdlite_last_error...() then give the calling thread the sentence, the rank that caused the
 * failure, the cause and all ranks concerned. The library borrows tensors until the operation's
 * handle is done. Numbers never change their meaning; new ones are appended. Thread-safety: every
 * function may be called from any thread; init and shutdown exclude one another. After fork() the
 * child has no job: hvdlite_where tells the place of its parent, and every other call but
 * hvdlite_is_initialized fails and has no effect. */
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
  HVDLITE_REDUCE = 9,
  HVDLITE_ADD_NAMED_PROCESS_SET = 10,    /* only the named ranks call it */
  HVDLITE_REMOVE_NAMED_PROCESS_SET = 11, /* only the set's members call it */
};
/* "allreduce"; NULL: there is no such kind. */
HVDLITE_API const char* hvdlite_operation_name(int32_t kind);

/* What an operation of a kind gives each member of the process set. */
enum {
  HVDLITE_RESULT_NONE = 0,      /* no tensor */
  HVDLITE_RESULT_SAME = 1,      /* a tensor of the input's shape */
  HVDLITE_RESULT_GATHERED = 2,  /* the members' rows */
  HVDLITE_RESULT_EXCHANGED = 3, /* rows from each member */
  HVDLITE_RESULT_SHARED = 4,    /* this member's share of the rows */
  HVDLITE_RESULT_AT_ROOT = 5,   /* a tensor of the input's shape at the root; else an empty one */
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
/* The name as in numpy; NULL: there is no such type. */
HVDLITE_API const char* hvdlite_dtype_name(int32_t dtype);
HVDLITE_API int64_t hvdlite_dtype_size(int32_t dtype); /* bytes; 0: there is no such type */

/* Codecs, from 1 on (base/tensor_codecs.def): "int8"; NULL: there is no such codec. */
HVDLITE_API const char* hvdlite_codec_name(int32_t codec);
HVDLITE_API const char* hvdlite_codec_parameter(int32_t codec); /* "clip"; "": it has none */
/* The bytes of so many encoded floats; -1: there is no such codec or parameter. */
HVDLITE_API int64_t hvdlite_encoded_bytes(int32_t codec, double parameter, int64_t count);

HVDLITE_API const char* hvdlite_last_error(void);
HVDLITE_API int32_t hvdlite_last_error_peer(void); /* global rank, or -1 */
/* Why that rank is lost. */
typedef int32_t hvdlite_cause;
enum {
  HVDLITE_CAUSE_UNKNOWN = 0, /* also: no rank is lost */
  HVDLITE_CAUSE_DIED = 1,    /* its process has ended without hvdlite_shutdown */
  HVDLITE_CAUSE_CLOSED = 2,  /* it has closed its connection: its process has ended or given up */
  HVDLITE_CAUSE_SILENT = 3,  /* it gives no sign of life */
  HVDLITE_CAUSE_NETWORK = 4, /* the network between two ranks */
  HVDLITE_CAUSE_DAMAGED = 5, /* what comes from it has changed on the way */
  HVDLITE_CAUSE_FAILED = 6,  /* it has said that it fails: hvdlite_abort, or before it had joined */
  HVDLITE_CAUSE_ENDED = 7,   /* whoever started the job has ended it: hvdlite_end_generation */
};
HVDLITE_API hvdlite_cause hvdlite_last_error_cause(void);
/* The ranks concerned, at most 64: the lost one, then, for HVDLITE_CAUSE_NETWORK, the one that has
 * noticed it, then others that this one does not reach either. Writes the first `capacity` of
 * them. Returns their number. */
HVDLITE_API int32_t hvdlite_last_error_ranks(int32_t* ranks, int32_t capacity);
HVDLITE_API const char* hvdlite_simd(void); /* the instruction set the kernels use */
/* The compiler of the GPU kernels, "nvcc 13.0"; "" if this build has none. */
HVDLITE_API const char* hvdlite_gpu_kernels(void);
/* Initializes the CUDA driver. *version is 13000 for CUDA 13.0. HVDLITE_UNSUPPORTED: the error
 * says why there is none. */
HVDLITE_API hvdlite_code hvdlite_find_cuda(const char* library, int32_t* version);
/* Loads the NCCL that this process would use: `wanted` unless it is empty, else the one of
 * NVIDIA's wheel in one of the folders `wheel` (separated by ':'), else the system's. *version
 * is 22803 for 2.28.3. HVDLITE_UNSUPPORTED: the error says why there is none. */
HVDLITE_API hvdlite_code hvdlite_find_nccl(const char* wanted, const char* wheel, int32_t* version);

/* ---- Life ----------------------------------------------------------------------------------- */

/* The MPI of this process. */
typedef struct {
  const char* absent; /* why there is no MPI; then the other members are ignored */
  /* a loaded library that links to MPI, through which its functions are found */
  const char* module;
  const char* const* names; /* names of handles, see hvdlite_mpi_handle_name */
  const int64_t* handles;   /* their values */
  int32_t handle_count;
  int64_t in_place;     /* MPI_IN_PLACE as an address */
  int64_t communicator; /* its ranks are the job's */
  const char* library;  /* "Open MPI v5.0.11" */
} hvdlite_mpi;
/* The names of the handles that the library needs, without "MPI_": "FLOAT", "SUM" ... NULL after
 * the last one. */
HVDLITE_API const char* hvdlite_mpi_handle_name(int32_t i);

/* A generation of an elastic job: a fixed set of ranks. */
typedef struct {
  int32_t number;    /* at least 1 */
  const char* nonce; /* of the assignment; the generation's secret depends on it */
  int32_t slot;      /* of this process on its host; local ranks are in the order of slots */
  int32_t seconds;   /* that its ranks have to meet, if fewer than the start timeout; 0: as many */
} hvdlite_generation;

typedef struct {
  int32_t rank;
  int32_t size;
  const char* store; /* "host:port" of the job's store; NULL if size is 1 */
  /* Prefix of this job's keys in the store; may be empty. Each init() uses keys of its own below
   * the prefix. */
  const char* store_prefix;
  const char* secret;       /* 64 hexadecimal digits; NULL if size is 1 */
  const char* const* knobs; /* field, value, field, value, ... */
  int32_t knob_count;       /* pairs */
  const int32_t* set_sizes; /* sizes of the process sets that exist from the start */
  const int32_t* set_ranks; /* their ranks, one set after another */
  int32_t set_count;
  const hvdlite_mpi* mpi; /* NULL: the job does not use MPI */
  const char* release; /* hvdlite's version, which must be equal on all ranks; NULL: not compared */
  const hvdlite_generation* generation; /* NULL: the job is not elastic */
} hvdlite_init_options;

/* Connects with the other ranks. Blocks until all have joined or the start timeout has passed. */
HVDLITE_API hvdlite_code hvdlite_init(const hvdlite_init_options* options);
/* Leaves the job; operations that this rank has submitted still complete. An error tells why the
 * job had failed before or failed meanwhile; the rank has left in any case. A second call does
 * nothing. */
HVDLITE_API hvdlite_code hvdlite_shutdown(double timeout_seconds);
/* Why the job has failed. HVDLITE_OK while it runs, after an orderly shutdown, and if there is
 * no job. */
HVDLITE_API hvdlite_code hvdlite_health(void);
/* Why nothing can be submitted any more: also after an orderly shutdown by other ranks, and after a
 * stall. HVDLITE_OK while the job runs, and if there is no job. */
HVDLITE_API hvdlite_code hvdlite_ended(void);
/* Ends the job on all ranks because this rank has failed. All ranks report `why`. */
HVDLITE_API void hvdlite_abort(const char* why);
/* Ends this generation of an elastic job on all ranks. Does nothing if this rank is in another one,
 * so news that come late do not harm. */
HVDLITE_API void hvdlite_end_generation(int32_t number, const char* why);
HVDLITE_API int32_t hvdlite_is_initialized(void);

typedef struct {
  int32_t rank, size, local_rank, local_size, cross_rank, cross_size;
  int32_t is_homogeneous;
} hvdlite_place;
HVDLITE_API hvdlite_code hvdlite_where(hvdlite_place* place);

/* Writes why the process set communicates as it does: at most `capacity` bytes with a final NUL.
 * Returns the length of the whole text. */
HVDLITE_API int64_t hvdlite_explain(int32_t process_set, char* text, int64_t capacity);
/* Whether the job's tensors are sent over MPI. */
HVDLITE_API int32_t hvdlite_uses_mpi(void);

/* ---- Operations ----------------------------------------------------------------------------- */

typedef struct {
  void* data;
  int32_t dtype;
  int32_t ndim;
  const int64_t* shape;
  int32_t device_kind; /* 0 host, 1 CUDA */
  int32_t device_index;
} hvdlite_tensor;

/* Of an allreduce that sums float32 in host memory, without a codec: each rank sends the `taken`
 * greatest elements, the same number on all ranks, and remembers the others. The memory has as
 * many elements as the tensor (`count`). The new one is complete when the operation is done, and
 * overlaps nothing.
 *
 *   without momentum   due = residual + input
 *   with momentum m    velocity = velocity * m + input, due = residual + velocity
 *   with Nesterov's    velocity = (velocity + input) * m, due = residual + (velocity + input)
 *
 * The elements of `due` that are greatest in magnitude are sent. They leave zeros in the new
 * residual, and with `masking` in the new velocity. */
typedef struct {
  int64_t taken;
  int64_t count;
  const float* residual;
  float* new_residual;
  const float* velocity; /* NULL: no momentum */
  float* new_velocity;
  float momentum;
  int32_t nesterov, masking;
} hvdlite_sparse;

typedef struct {
  int32_t kind;
  int32_t op; /* reduction */
  int32_t process_set;
  /* NULL: "<kind>.noname.<n>", where n counts the unnamed operations of this kind in this set.
   * add_named_process_set: the set's name; several sets of the same ranks need different ones */
  const char* name;
  int64_t root; /* broadcast: global rank. remove_[named_]process_set: the id */
  double prescale;
  double postscale;
  /* alltoall: rows for each member, or NULL for equal parts. add_[named_]process_set: the ranks */
  const int64_t* splits;
  int32_t split_count;
  hvdlite_tensor input;
  /* data == NULL: the library allocates the result, see hvdlite_result. Otherwise the result is
   * written there without a copy: contiguous memory for as many elements as the result has, in any
   * shape. It may be the input (allreduce, broadcast), or have the input of an allgather as this
   * rank's rows; otherwise the two do not overlap. The size of an allgather's or an alltoall's
   * result is known when the ranks have agreed. If the output has another size, the operation ends
   * on this rank with HVDLITE_INVALID_ARGUMENT, and the other ranks get their results. */
  hvdlite_tensor output;
  /* GPU tensors: the CUDA stream that produces the input (0 is the legacy stream, 1 and 2 as in
   * CUDA). */
  void* stream;
  /* 1: the caller computes first and waits soon, so the operation may begin only then if no
   * processor is free. */
  int32_t patient;
  /* For an allreduce that sums float32: its codec on all ranks; 0: none. */
  int32_t codec;
  double codec_parameter;
  /* Error feedback, or data == NULL for none. Same shape and device as the input. It is added to
   * the input and then holds the encoding error. After a failure it holds the old or the new
   * values. It overlaps neither input nor output. */
  hvdlite_tensor residual;
  /* Codecs that round at random do so by these, by the name and the rank. */
  uint64_t codec_seed, codec_step;
  const hvdlite_sparse* sparse; /* NULL: all elements are sent */
} hvdlite_operation;

HVDLITE_API hvdlite_code hvdlite_submit(const hvdlite_operation* operation, int64_t* handle);
/* Submits and waits up to about `slice_seconds`. Sets *handle to -1 if the operation has ended
 * and has no result to fetch; the return value is then its status. Otherwise the caller waits
 * for the handle, gets its result and releases it. */
HVDLITE_API hvdlite_code hvdlite_run(const hvdlite_operation* operation, double slice_seconds,
                                     int64_t* handle);
/* Submits all operations or none. They become ready, are reduced and fail together. `group` is
 * the group's name; NULL: a name is made as for `name`. */
HVDLITE_API hvdlite_code hvdlite_submit_group(const hvdlite_operation* operations, int32_t count,
                                              const char* group, int64_t* handles);

/* The names of the tensors of lists, one for each, as hvdlite_operation has them. */
typedef struct hvdlite_names hvdlite_names;
HVDLITE_API hvdlite_names* hvdlite_make_names(const char* const* names, int32_t count);
HVDLITE_API void hvdlite_free_names(hvdlite_names* names);

/* Allreduces of one dtype, on the host or on a GPU, into outputs of the caller's. */
typedef struct {
  int32_t op; /* not HVDLITE_ADASUM */
  int32_t process_set;
  const char* name; /* the group's; NULL: a name is made as for hvdlite_operation */
  /* If not NULL, the tensors are no group: each is an operation of this name, which other ranks may
   * submit alone, or in another list. It is cheapest if all ranks make the same lists. */
  const hvdlite_names* names;
  const hvdlite_tensor* inputs;
  const hvdlite_tensor* outputs; /* may be `inputs` */
  int32_t count;
  double prescale, postscale;
  void* stream;    /* as in hvdlite_operation */
  int32_t patient; /* as in hvdlite_operation */
} hvdlite_list;
enum { HVDLITE_NO_LIST = -2 };
/* As hvdlite_submit_group, for less: all have one handle. Ranks may call either function for the
 * same group. Sets *handle to HVDLITE_NO_LIST, and does nothing, if the tensors differ in dtype
 * or place, or if fusion is off. */
HVDLITE_API hvdlite_code hvdlite_submit_list(const hvdlite_list* list, int64_t* handle);
/* The same for hvdlite_run. */
HVDLITE_API hvdlite_code hvdlite_run_list(const hvdlite_list* list, double slice_seconds,
                                          int64_t* handle);

/* How many lists of this rank were carried out tensor by tensor, because another rank had asked for
 * one of these in another way. */
HVDLITE_API int64_t hvdlite_lists_taken_apart(void);

/* Waits until the operation is done, about `slice_seconds` have passed or a signal has arrived.
 * Sets *done if the operation is done. An unknown handle is HVDLITE_INVALID_ARGUMENT. */
HVDLITE_API hvdlite_code hvdlite_wait(int64_t handle, double slice_seconds, int32_t* done);
/* Whether the result is complete; for GPU tensors: on the device. */
HVDLITE_API hvdlite_code hvdlite_poll(int64_t handle, int32_t* done);
/* Waits and, if the operation is done, releases the handle and returns the operation's status.
 * Only for operations with an output of the caller's. A slice of 0 does not wait. *done is -1 for
 * an unknown handle, such as one that another thread has ended, and 2 for a GPU operation whose
 * work is enqueued: its handle is not released, see below. */
HVDLITE_API hvdlite_code hvdlite_end(int64_t handle, double slice_seconds, int32_t* done);

typedef struct {
  hvdlite_tensor output;          /* data == NULL unless the library has allocated the result */
  const int64_t* received_splits; /* alltoall */
  int32_t split_count;
  int32_t on_gpu; /* 1: the result is complete on the device only later, see hvdlite_follow */
  /* join: the last rank. add_[named_]process_set: the id. remove_[named_]process_set: 1 if the set
   * existed */
  int64_t number;
} hvdlite_result;
/* Returns the status of a done operation. What *result points to is valid until the handle is
 * released; a caller whose other threads may do so reads on_gpu only, and takes the result. */
HVDLITE_API hvdlite_code hvdlite_get_result(int64_t handle, hvdlite_result* result);

/* For GPU tensors *done* means enqueued: all work is on hvdlite's stream. Before using the
 * result or reusing the input, make your stream wait with this call; the host does not block.
 * Returns the operation's failure, if it has failed on this rank. */
HVDLITE_API hvdlite_code hvdlite_follow(int64_t handle, void* stream);
/* Copies a result that the library has allocated to `to`, on the stream. */
HVDLITE_API hvdlite_code hvdlite_copy_result(int64_t handle, void* to, void* stream);
/* Blocks until the device has finished or about `slice_seconds` have passed: for callers without
 * a stream. Returns as hvdlite_follow. */
HVDLITE_API hvdlite_code hvdlite_wait_for_device(int64_t handle, double slice_seconds,
                                                 int32_t* finished);
/* A result that the library has allocated on a GPU: *storage of hvdlite_take. */
typedef struct hvdlite_device_memory hvdlite_device_memory;
/* As hvdlite_follow. The memory is freed in the order of the last stream given here. */
HVDLITE_API hvdlite_code hvdlite_follow_memory(hvdlite_device_memory* memory, void* stream);
HVDLITE_API void hvdlite_free_memory(hvdlite_device_memory* memory);
/* The device_index of a device pointer. */
HVDLITE_API hvdlite_code hvdlite_gpu_of(const void* memory, int32_t* index);
/* HVDLITE_OK if operations accept GPU tensors. */
HVDLITE_API hvdlite_code hvdlite_can_use_gpus(void);

HVDLITE_API void hvdlite_release(int64_t handle);
/* As hvdlite_get_result, and releases the handle: of several threads one gets the result. What
 * *result points to is valid until the thread's next hvdlite_take. *storage becomes the owner of a
 * result that the library has allocated: free it with free(), on a GPU with
 * hvdlite_free_memory(). */
HVDLITE_API hvdlite_code hvdlite_take(int64_t handle, hvdlite_result* result, void** storage);
/* Releases all handles with their results: for a binding, before the next hvdlite_init. */
HVDLITE_API void hvdlite_release_all(void);

/* ---- Operations with a callback: for kernels of a framework's executor, which must not wait -- */

typedef struct {
  /* Called exactly once for each accepted operation (submit returned HVDLITE_OK), perhaps before
   * submit returns. `error` says what went wrong, and in the callback the functions
   * hvdlite_last_error...() tell more; `result` is NULL unless the code is HVDLITE_OK. Both are
   * valid until the callback returns. The caller is the library's thread or a program's thread
   * inside hvdlite_wait, _run, _shutdown or _abort; it holds no lock. The callback may submit and
   * abort. It must not block: no hvdlite_wait, _run, _init or _shutdown, no interpreter lock. A
   * shutdown or a failure of the job ends all operations with that error. A forked child calls no
   * callback. */
  void (*done)(void* context, hvdlite_code code, const char* error, const hvdlite_result* result);
  /* Allocates a result whose shape the caller cannot know; `output` describes it. Returning NULL
   * ends the job. Called at most once, before done(), under the library's locks: it must call no
   * function of this header. If the member is NULL, the library allocates, and frees after
   * done() has returned. */
  void* (*allocate)(void* context, const hvdlite_tensor* output);
  void* context; /* passed to both */
} hvdlite_completion;

/* As hvdlite_submit and hvdlite_submit_group, with one completion per operation. An error calls
 * no callback. */
HVDLITE_API hvdlite_code hvdlite_submit_then(const hvdlite_operation* operation,
                                             const hvdlite_completion* completion);
HVDLITE_API hvdlite_code hvdlite_submit_group_then(const hvdlite_operation* operations,
                                                   int32_t count, const char* group,
                                                   const hvdlite_completion* completions);

/* ---- Gradients and tensors in shared memory -------------------------------------------------- */

/* A framework's allocator of host memory, found in what the process has loaded. */
typedef struct {
  const char* module;   /* path of a loaded library that uses the framework */
  const char* function; /* a symbol that the allocating library alone defines */
  const char* gate;     /* a symbol: int f(void), `outside` unless the thread computes gradients */
  int32_t outside;
} hvdlite_pool_allocator;
/* From now on the framework's library asks the pool first (see csrc/pool/slots.h), which hands out
 * nothing before hvdlite_pool_arm(1). HVDLITE_UNSUPPORTED: the error says why nothing has changed.
 * Needs a job with the knob gradient_pool. */
HVDLITE_API hvdlite_code hvdlite_pool_patch(const hvdlite_pool_allocator* allocator);
/* So many more gradients (fewer, if negative) of `bytes` each are expected. */
HVDLITE_API void hvdlite_pool_expect(int64_t bytes, int64_t gradients);
/* Whether gradients of these sizes are allocated in the pool. They can be freed in any case. */
HVDLITE_API void hvdlite_pool_arm(int32_t on);
/* From now on, or no longer, all that this thread allocates by the patched allocator is in the
 * pool, if it has 16 KiB or more. For what lives as long as the program trains. */
HVDLITE_API void hvdlite_pool_take_all(int32_t on);
/* Memory for a tensor, on a page of its own, for hvdlite_pool_free(). It stays valid after the job,
 * and a forked child inherits a private copy. NULL where no other rank of this host could share it:
 * no job, no neighbour, a small tensor, no memory. Not an error: allocate elsewhere. */
HVDLITE_API void* hvdlite_pool_allocate(int64_t bytes);
HVDLITE_API void hvdlite_pool_free(void* memory);
/* Where the memory lies in the pool; -1: elsewhere. */
HVDLITE_API int64_t hvdlite_pool_offset(const void* memory);

typedef struct {
  uint64_t hits;   /* blocks handed out for gradients */
  uint64_t misses; /* refused although the size is known */
  uint64_t live;   /* blocks allocated now */
  uint64_t bytes;  /* memory of all blocks */
} hvdlite_pool_counters;
HVDLITE_API void hvdlite_pool_stats(hvdlite_pool_counters* counters);

/* ---- Comparing replicas ---------------------------------------------------------------------- */

/* A 64-bit digest of bytes in host memory: the same on every processor, and another one for every
 * flipped bit. Needs no job. */
HVDLITE_API uint64_t hvdlite_digest(const void* data, int64_t bytes);

/* ---- Observation ---------------------------------------------------------------------------- */

/* Starts this rank's timeline: on rank 0, or on all ranks if the knob timeline_ranks says so. */
HVDLITE_API hvdlite_code hvdlite_start_timeline(const char* path, int32_t mark_cycles);
HVDLITE_API hvdlite_code hvdlite_stop_timeline(void);
/* Writes JSON: for "metrics" an object of counters, for "recent" the last operations. For "verdict"
 * it writes the verdict on the last stall, as plain text. Writes at most `capacity` bytes with a
 * final NUL. Returns the length of the whole text; 0 if there is no job. */
HVDLITE_API int64_t hvdlite_describe(const char* what, char* text, int64_t capacity);
/* What the engine asks and tells about a job that is stuck or has ended. */
enum {
  HVDLITE_JOB_FAILED = -2, /* hvdlite_last_error() says why */
  HVDLITE_JOB_ENDED = -1,  /* in good order, or because operations stalled: the same */
  HVDLITE_ASKED_NOTHING = 0,
  HVDLITE_ASKED_WHERE = 1,  /* hvdlite_answer has to say where the user's program is */
  HVDLITE_TOLD_VERDICT = 2, /* hvdlite_describe("verdict") is new */
  HVDLITE_ASKED_REPORT = 3, /* by hvdlite_wish_report */
};
/* Waits for one of them. Returns HVDLITE_ASKED_NOTHING after `timeout_seconds`. A thread of the
 * binding calls this in a loop until the job has ended. */
HVDLITE_API int32_t hvdlite_wait_question(double timeout_seconds);
/* Makes hvdlite_wait_question return HVDLITE_ASKED_REPORT within a few tenths of a second, if there
 * is a job. A signal handler may call it once hvdlite_init has been called. */
HVDLITE_API void hvdlite_wish_report(void);
/* `in_wait`: the program is in a call of hvdlite. */
HVDLITE_API void hvdlite_answer(const char* place, int32_t in_wait);

/* ---- Process sets --------------------------------------------------------------------------- */

/* Writes at most `capacity` ranks. Returns the size of the set; 0 if there is no such set. */
HVDLITE_API int32_t hvdlite_process_set_ranks(int32_t process_set, int32_t* ranks,
                                              int32_t capacity);
/* The sets that all ranks have added: without named ones. */
HVDLITE_API int32_t hvdlite_process_set_ids(int32_t* ids, int32_t capacity);

#ifdef __cplusplus
}
#endif
#endif /* HVDLITE_API_HVDLITE_H_ */
