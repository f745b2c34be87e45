// An NCCL that says its version and has nothing else.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 22803;
  return 0;
}
