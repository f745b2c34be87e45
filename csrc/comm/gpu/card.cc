#include "comm/gpu/card.h"

namespace hvdlite::comm::gpu {

Status Card::LoadLocked() {
  if (!asked_) {
    asked_ = true;
    why_not_ = device::LoadDriver(config.cuda_library, &driver_);
  }
  return why_not_;
}

Status Card::Usable() {
  MutexLock lock(mutex_);
  return LoadLocked();
}

Status Card::Open(int ordinal, std::shared_ptr<device::Gpu>* gpu) {
  MutexLock lock(mutex_);
  if (gpu_ == nullptr) {
    HVDLITE_RETURN_IF_ERROR(LoadLocked());
    HVDLITE_RETURN_IF_ERROR(device::Gpu::Open(driver_, ordinal, &gpu_));
  } else if (gpu_->ordinal() != ordinal) {
    return Status::InvalidArgument(
        "this rank uses the GPU cuda:" + std::to_string(gpu_->ordinal()) +
        " and was given a tensor on cuda:" + std::to_string(ordinal) +
        ": one rank uses one GPU. Move the tensor, or choose the device before the first operation "
        "(torch.cuda.set_device(hvd.local_rank())), and start a rank for each GPU");
  }
  *gpu = gpu_;
  return Status::Ok();
}

Status Card::Find(const void* memory, int* ordinal) {
  constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_...
  MutexLock lock(mutex_);
  HVDLITE_RETURN_IF_ERROR(LoadLocked());
  const auto address = reinterpret_cast<device::Address>(memory);
  return driver_->Check(driver_->PointerGetAttribute(ordinal, kDeviceOrdinal, address),
                        "asking which GPU a tensor lies on");
}

Status Card::OpenStream(std::shared_ptr<device::Gpu>* gpu) {
  MutexLock lock(mutex_);
  return gpu_ == nullptr ? Status::Ok() : gpu_->OpenStream(gpu);
}

Status Card::Nccl(std::shared_ptr<const nccl::Library>* library) {
  MutexLock lock(mutex_);
  if (nccl_ == nullptr) {
    HVDLITE_RETURN_IF_ERROR(nccl::Load({config.nccl_library, config.nccl_wheel}, &nccl_));
  }
  *library = nccl_;
  return Status::Ok();
}

}  // namespace hvdlite::comm::gpu
