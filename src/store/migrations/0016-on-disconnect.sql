-- `cancel` was the default of every group, and cannot be told from a group that asked for it. Groups that charge drain
-- from now on; a file that says `cancel` sets it again when it is applied.
UPDATE grp SET on_disconnect = 'default' WHERE on_disconnect = 'cancel';
