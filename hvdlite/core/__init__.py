"""Operations on the tensors of any framework, and the door to the native core."""
