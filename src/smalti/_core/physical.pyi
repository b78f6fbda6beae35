from typing import final

@final
class PhysicalColumns:
    num_columns: int
    num_physical: int
    first_column: int

    def paths(self, names: list[str]) -> list[tuple[int, str]]: ...
    def type_ids(self) -> list[int]: ...
    def subtree(self, node: int) -> list[int]: ...
