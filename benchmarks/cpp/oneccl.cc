// oneCCL behind functions of C, because it has none for Python: benchmarks/peers/oneccl.py calls
// them. An exception ends the process, and says why.
//
//   g++ -O3 -shared -fPIC -std=c++17 oneccl.cc -I$CCL_ROOT/include -L$CCL_ROOT/lib -lccl -o oneccl
#include <cstddef>
#include <cstring>
#include <oneapi/ccl.hpp>
#include <optional>
#include <vector>

namespace {

ccl::shared_ptr_class<ccl::kvs> store;
std::optional<ccl::communicator> job;

ccl::event Start(void* tensor, size_t count, bool bfloat16) {
  const auto type = bfloat16 ? ccl::datatype::bfloat16 : ccl::datatype::float32;
  return ccl::allreduce(tensor, tensor, count, type, ccl::reduction::sum, *job);
}

}  // namespace

extern "C" {

size_t oneccl_address_bytes() {
  return ccl::kvs::address_max_size;
}

// Rank 0 opens the store and has its address written; the others must know it.
void oneccl_open(char* address) {
  ccl::init();
  store = ccl::create_main_kvs();
  const auto found = store->get_address();
  std::memcpy(address, found.data(), found.size());
}

void oneccl_join(int rank, int size, const char* address) {
  ccl::init();
  if (store == nullptr) {
    ccl::kvs::address_type known;
    std::memcpy(known.data(), address, known.size());
    store = ccl::create_kvs(known);
  }
  job = ccl::create_communicator(size, rank, store);
}

void oneccl_allreduce(void* tensor, size_t count, bool bfloat16) {
  Start(tensor, count, bfloat16).wait();
}

void oneccl_step(void* const* tensors, const size_t* counts, size_t n, bool bfloat16) {
  std::vector<ccl::event> events;
  events.reserve(n);
  for (size_t i = 0; i < n; ++i) events.push_back(Start(tensors[i], counts[i], bfloat16));
  for (ccl::event& event : events) event.wait();
}

void oneccl_leave() {
  job.reset();
  store.reset();
}
}
