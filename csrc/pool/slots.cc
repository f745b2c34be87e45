#include "pool/slots.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "pool/memory.h"
#include "pool/pool.h"

namespace hvdlite::pool {
namespace {

// What the process allocates with otherwise. Looked up by name, not read from the slots: a slot
// that has never been used leads to the loader, which would rewrite it.
struct Process {
  template <typename Function>
  static Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
  decltype(::posix_memalign)* posix_memalign = Find<decltype(::posix_memalign)>("posix_memalign");
  decltype(::aligned_alloc)* aligned_alloc = Find<decltype(::aligned_alloc)>("aligned_alloc");
  decltype(::memalign)* memalign = Find<decltype(::memalign)>("memalign");
  decltype(::realloc)* realloc = Find<decltype(::realloc)>("realloc");
  decltype(::free)* free = Find<decltype(::free)>("free");
  decltype(::malloc_usable_size)* usable =
      Find<decltype(::malloc_usable_size)>("malloc_usable_size");
};

const Process& Theirs() {
  static const Process process;
  return process;
}

int PosixMemalign(void** block, size_t alignment, size_t bytes) {
  if (void* const ours = Pool::Process().Take(bytes, alignment)) {
    *block = ours;
    return 0;
  }
  return Theirs().posix_memalign(block, alignment, bytes);
}

void* AlignedAlloc(size_t alignment, size_t bytes) {
  void* const ours = Pool::Process().Take(bytes, alignment);
  return ours != nullptr ? ours : Theirs().aligned_alloc(alignment, bytes);
}

void* Memalign(size_t alignment, size_t bytes) {
  void* const ours = Pool::Process().Take(bytes, alignment);
  return ours != nullptr ? ours : Theirs().memalign(alignment, bytes);
}

void Free(void* block) {
  Pool& pool = Pool::Process();
  if (pool.Owns(block)) {
    pool.Give(block);
  } else {
    Theirs().free(block);
  }
}

size_t UsableSize(void* block) {
  const Pool& pool = Pool::Process();
  return pool.Owns(block) ? pool.SizeOf(block) : Theirs().usable(block);
}

void* Realloc(void* block, size_t bytes) {
  Pool& pool = Pool::Process();
  if (!pool.Owns(block)) return Theirs().realloc(block, bytes);
  void* moved = nullptr;
  if (bytes > 0) {
    moved = Theirs().realloc(nullptr, bytes);
    if (moved == nullptr) return nullptr;
    memcpy(moved, block, std::min(bytes, pool.SizeOf(block)));
  }
  pool.Give(block);
  return moved;
}

enum class Kind : uint8_t { kFrees, kAsks, kAllocates };

struct Replacement {
  std::string_view name;
  Kind kind;
  void* ours;
  void* theirs;
};

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Of a block that was allocated here every function must know, so allocating comes last.
std::vector<Replacement> Replacements() {
  const Process& theirs = Theirs();
  return {
      {"free", Kind::kFrees, Address(Free), Address(theirs.free)},
      {"realloc", Kind::kAsks, Address(Realloc), Address(theirs.realloc)},
      {"malloc_usable_size", Kind::kAsks, Address(UsableSize), Address(theirs.usable)},
      {"posix_memalign", Kind::kAllocates, Address(PosixMemalign), Address(theirs.posix_memalign)},
      {"aligned_alloc", Kind::kAllocates, Address(AlignedAlloc), Address(theirs.aligned_alloc)},
      {"memalign", Kind::kAllocates, Address(Memalign), Address(theirs.memalign)}};
}

#if defined(__x86_64__)
bool IsAddress(uint64_t info) {
  const auto type = ELF64_R_TYPE(info);
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
}
#elif defined(__aarch64__)
bool IsAddress(uint64_t info) {
  const auto type = ELF64_R_TYPE(info);
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
}
#else
bool IsAddress(uint64_t) {
  return false;
}
#endif

// A loaded library, as the loader describes it.
class Library {
 public:
  explicit Library(const link_map& map) : map_(map) {
    dl_iterate_phdr(&Library::ReadSegments, this);
    for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) Read(*entry);
  }

  struct Slot {
    void** place;
    const Replacement* with;
  };
  std::vector<Slot> Find(const std::vector<Replacement>& replacements) const {
    std::vector<Slot> found;
    Search(jumps_, jumps_bytes_, replacements, &found);
    Search(others_, others_bytes_, replacements, &found);
    return found;
  }
  // Whether it lies in the library's own memory.
  bool Holds(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return std::any_of(parts_.begin(), parts_.end(),
                       [at](const Part& part) { return at >= part.begin && at < part.end; });
  }
  // Memory that the loader has made read-only after its work is writable for that moment.
  bool Store(void** place, void* value) const {
    const auto at = reinterpret_cast<uintptr_t>(place);
    const bool sealed = at >= sealed_.begin && at < sealed_.end;
    char* const page = reinterpret_cast<char*>(place) - at % PageBytes();
    if (sealed && mprotect(page, PageBytes(), PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(place, value, __ATOMIC_SEQ_CST);
    if (sealed) mprotect(page, PageBytes(), PROT_READ);
    return true;
  }

 private:
  struct Part {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };

  static int ReadSegments(dl_phdr_info* info, size_t, void* library) {
    auto* const self = static_cast<Library*>(library);
    const auto* const headers = info->dlpi_phdr;
    const auto here = [&](const ElfW(Phdr) & header) { return info->dlpi_addr + header.p_vaddr; };
    const bool is_it =
        info->dlpi_addr == self->map_.l_addr &&
        std::any_of(headers, headers + info->dlpi_phnum, [&](const ElfW(Phdr) & header) {
          return header.p_type == PT_DYNAMIC &&
                 here(header) == reinterpret_cast<uintptr_t>(self->map_.l_ld);
        });
    if (!is_it) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const uintptr_t begin = here(headers[i]);
      if (headers[i].p_type == PT_LOAD) self->parts_.push_back({begin, begin + headers[i].p_memsz});
      if (headers[i].p_type == PT_GNU_RELRO) {  // the loader seals whole pages
        self->sealed_ = {begin / PageBytes() * PageBytes(),
                         (begin + headers[i].p_memsz) / PageBytes() * PageBytes()};
      }
    }
    return 1;
  }

  // glibc has made addresses of these numbers; other loaders leave them as they are in the file.
  template <typename T>
  const T* At(ElfW(Addr) address) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in the loader's tables
    return reinterpret_cast<const T*>(address < map_.l_addr ? map_.l_addr + address : address);
  }
  void Read(const ElfW(Dyn) & entry) {
    switch (entry.d_tag) {
      case DT_JMPREL: jumps_ = At<ElfW(Rela)>(entry.d_un.d_ptr); break;
      case DT_PLTRELSZ: jumps_bytes_ = entry.d_un.d_val; break;
      case DT_RELA: others_ = At<ElfW(Rela)>(entry.d_un.d_ptr); break;
      case DT_RELASZ: others_bytes_ = entry.d_un.d_val; break;
      case DT_SYMTAB: symbols_ = At<ElfW(Sym)>(entry.d_un.d_ptr); break;
      case DT_STRTAB: names_ = At<char>(entry.d_un.d_ptr); break;
      default: break;
    }
  }

  void Search(const ElfW(Rela) * table, size_t bytes, const std::vector<Replacement>& replacements,
              std::vector<Slot>* found) const {
    if (table == nullptr || symbols_ == nullptr || names_ == nullptr) return;
    for (size_t i = 0; i < bytes / sizeof(*table); ++i) {
      const auto symbol = ELF64_R_SYM(table[i].r_info);
      if (symbol == 0 || table[i].r_addend != 0 || !IsAddress(table[i].r_info)) continue;
      const std::string_view name = names_ + symbols_[symbol].st_name;
      for (const Replacement& each : replacements) {
        if (each.name != name) continue;
        // NOLINTNEXTLINE(performance-no-int-to-ptr): as above
        found->push_back({reinterpret_cast<void**>(map_.l_addr + table[i].r_offset), &each});
      }
    }
  }

  const link_map& map_;
  std::vector<Part> parts_;
  Part sealed_;
  const ElfW(Rela) * jumps_ = nullptr;
  size_t jumps_bytes_ = 0;
  const ElfW(Rela) * others_ = nullptr;
  size_t others_bytes_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
};

// The process's functions as libraries see them. A program at fixed addresses, such as Debian's
// Python, may have an entry of its own for a function. dlsym() then finds that entry, and the slots
// of libraries have what it leads to.
class Program {
 public:
  explicit Program(const link_map& library) : itself_(First(library)) {}

  bool LeadsTo(const Replacement& function, const void* where) const {
    if (function.theirs == where) return true;
    if (!itself_.Holds(function.theirs)) return false;
    const std::vector<Library::Slot> slots = itself_.Find({function});
    return std::any_of(slots.begin(), slots.end(), [where](const Library::Slot& slot) {
      return __atomic_load_n(slot.place, __ATOMIC_SEQ_CST) == where;
    });
  }

 private:
  static const link_map& First(const link_map& library) {
    const link_map* first = &library;
    while (first->l_prev != nullptr) first = first->l_prev;
    return *first;
  }
  const Library itself_;
};

Status Rewrite(const link_map& map) {
  const std::string name = map.l_name;
  const Library library(map);
  const Program program(map);
  const std::vector<Replacement> replacements = Replacements();
  std::vector<Library::Slot> slots = library.Find(replacements);
  size_t allocating = 0, freeing = 0;
  for (const Library::Slot& slot : slots) {
    void* const now = __atomic_load_n(slot.place, __ATOMIC_SEQ_CST);
    allocating += slot.with->kind == Kind::kAllocates;
    freeing += slot.with->kind == Kind::kFrees;
    // The loader has not looked it up yet where it leads back into the library.
    const bool known =
        now == slot.with->ours || library.Holds(now) || program.LeadsTo(*slot.with, now);
    if (!known || slot.with->theirs == nullptr)
      return Status::Unsupported(name + " has a " + std::string(slot.with->name) + " of its own");
  }
  if (allocating == 0 || freeing == 0)
    return Status::Unsupported(name + " does not allocate by the C library's functions");
  std::stable_sort(slots.begin(), slots.end(),
                   [](const auto& a, const auto& b) { return a.with->kind < b.with->kind; });
  for (const Library::Slot& slot : slots) {
    if (!library.Store(slot.place, slot.with->ours))
      return Status::Unsupported("mprotect of " + name + ": " + strerror(errno));
  }
  return Status::Ok();
}

// Blocks lead to this library's functions, and to the other's slots, until the process ends.
bool Keep(const char* path) {
  return path != nullptr && dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

}  // namespace

Status Patch(const Allocator& allocator) {
  static Mutex* const mutex = new Mutex;
  MutexLock lock(*mutex);
  void* const module = dlopen(allocator.module.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (module == nullptr) return Status::Unsupported(allocator.module + " is not loaded");
  void* const function = dlsym(module, allocator.function.c_str());
  void* const gate = dlsym(module, allocator.gate.c_str());
  Dl_info found{}, own{};
  link_map* map = nullptr;
  if (function == nullptr || gate == nullptr ||
      dladdr1(function, &found, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) {
    return Status::Unsupported(allocator.module + " has no " +
                               (function == nullptr ? allocator.function : allocator.gate));
  }
  // A program that is linked with this library as a whole cannot be unloaded.
  if (dladdr(Address(Free), &own) != 0) Keep(own.dli_fname);
  if (!Keep(found.dli_fname)) return Status::Unsupported(std::string(dlerror()));
  HVDLITE_RETURN_IF_ERROR(Rewrite(*map));
  Pool::Process().Gate(reinterpret_cast<int (*)()>(gate), allocator.outside);
  return Status::Ok();
}

}  // namespace hvdlite::pool
