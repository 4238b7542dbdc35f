-- `cancel` was the default of every group, so an explicit `cancel` cannot be distinguished from it. Groups that charge
-- drain from now on; a file with `cancel` sets it again when it is applied.
UPDATE grp SET on_disconnect = 'default' WHERE on_disconnect = 'cancel';
